"""The workloads of moving subscriptions, with the times of their acknowledgements. Pure.

The workloads are cases in which geo-replication systems differ: consumers that keep up, batches, late acknowledgements,
bursts, and slow consumers that leave a few messages unacknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

LATE_SECONDS = (1.0, 8.0)
"""Bounds of the delay of a late acknowledgement."""

HELD = 3
"""Number of first messages that stay unacknowledged, in workloads with such messages."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One topic with one producer and one Shared, replicated subscription."""

    id: str
    label: str
    pause_s: float = 0.2
    """Seconds between closing the consumer in one cluster and opening it in the other."""

    batch: int = 1
    """Messages per entry."""

    late_share: float = 0.0
    """Fraction of the messages with late acknowledgements."""

    burst_s: float = 0.0
    """Seconds between two bursts, each of all messages due since the last one; 0: a constant rate."""

    work_s: float = 0.0
    """Seconds of work of the consumer for each message of a burst, one after the other."""

    holds: bool = False
    slow: bool = False
    """Whether the consumer processes half as many messages per second as are published."""

    behind_s: float = 0.0
    """Delay of the consumer in seconds."""

    planned: bool = True
    """Whether the consumer is closed before it moves; otherwise the broker is killed."""


WORKLOADS = (
    Workload("caught-up", "caught up, 0.2 s between"),
    Workload("caught-up-pause", "caught up, 4 s between", pause_s=4.0),
    Workload("batched", "caught up, batches of 10", batch=10),
    Workload("late", "5 % acknowledged 1-8 s late", late_share=0.05),
    Workload("late-pause", "the same, 4 s between", late_share=0.05, pause_s=4.0),
    Workload("late-bursts", "the same, in bursts", late_share=0.05, burst_s=1.0),
    Workload("slow", f"slow, {HELD} messages held", slow=True, holds=True),
    Workload("kill", "caught up, broker killed", planned=False),
)


def entries_due(workload: Workload, rate: float, elapsed_s: float) -> int:
    """Return the number of entries published ``elapsed_s`` after the start, at ``rate`` messages per second."""
    if workload.burst_s:
        elapsed_s = (elapsed_s // workload.burst_s) * workload.burst_s
    return int(rate * elapsed_s) // workload.batch


def permits_due(workload: Workload, rate: float, elapsed_s: float, queue: int) -> int:
    """Return the total permits that a consumer has granted by then, in messages, at most ``queue`` of them unused."""
    if workload.slow:
        return int(rate * elapsed_s / 2)
    if workload.behind_s:
        return int(rate * max(0.0, elapsed_s - workload.behind_s))
    return int(rate * elapsed_s) + queue


def acknowledge_at(workload: Workload, number: int, rate: float, now_s: float, chance: random.Random) -> float | None:
    """Return the time at which the consumer acknowledges message ``number``, received now; None for never."""
    if workload.holds and number < HELD:
        return None
    if workload.late_share and chance.random() < workload.late_share:
        return now_s + chance.uniform(*LATE_SECONDS)
    if workload.work_s:
        return now_s + workload.work_s * (1 + number % int(rate * workload.burst_s))
    return now_s


@dataclass(slots=True)
class Account:
    """The results of a workload's messages."""

    published: int = 0
    """Number of messages with a receipt."""

    acknowledged: set[int] = field(default_factory=set)
    """Messages with a receipt of their acknowledgement before the switch."""

    received: set[int] = field(default_factory=set)
    """Messages received after the switch."""

    @property
    def duplicates(self) -> int:
        """Return the number of messages delivered again after the receipt of their acknowledgement."""
        return len(self.acknowledged & self.received)

    @property
    def missing(self) -> int:
        """Return the number of messages neither acknowledged before the switch nor received after it."""
        return self.published - len((self.acknowledged | self.received) & set(range(self.published)))
