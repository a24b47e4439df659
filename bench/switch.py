"""What consumers acknowledge, and when, in the workloads whose subscription then moves to the other cluster. Pure.

The workloads are those that tell geo-replications apart: consumers that keep up, whose messages come in batches, that
acknowledge some messages late, that get them in bursts, that are slow and hold a few back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

LATE_SECONDS = (1.0, 8.0)
"""Bounds of how late a late acknowledgement is."""

HELD = 3
"""Messages, the first ones, that a consumer holds to the end in the workloads that hold some."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One topic with one producer and one shared, replicated subscription."""

    id: str
    label: str
    pause_s: float = 0.2
    """Seconds between closing the consumer in one cluster and opening it in the other."""

    batch: int = 1
    """Messages to an entry."""

    late_share: float = 0.0
    """Share of the messages whose acknowledgement comes late."""

    burst_s: float = 0.0
    """Seconds between two bursts, each of all that is due by then; 0: messages are published steadily."""

    work_s: float = 0.0
    """Seconds that a message of a burst keeps its consumer, before which it does not begin with the next one."""

    holds: bool = False
    slow: bool = False
    """Whether the consumer takes half as many messages a second as are published."""

    behind_s: float = 0.0
    """Seconds by which the consumer is behind."""

    planned: bool = True
    """Whether the consumer is closed before it moves; else the broker is killed under it."""


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
    """Return how many entries must have been published ``elapsed_s`` after the start, at ``rate`` messages a second."""
    if workload.burst_s:
        elapsed_s = (elapsed_s // workload.burst_s) * workload.burst_s
    return int(rate * elapsed_s) // workload.batch


def permits_due(workload: Workload, rate: float, elapsed_s: float, queue: int) -> int:
    """Return how many permits a consumer must have granted by then, in messages, of which at most ``queue`` wait."""
    if workload.slow:
        return int(rate * elapsed_s / 2)
    if workload.behind_s:
        return int(rate * max(0.0, elapsed_s - workload.behind_s))
    return int(rate * elapsed_s) + queue


def acknowledge_at(workload: Workload, number: int, rate: float, now_s: float, chance: random.Random) -> float | None:
    """Return when the consumer acknowledges message ``number``, received now; None for never."""
    if workload.holds and number < HELD:
        return None
    if workload.late_share and chance.random() < workload.late_share:
        return now_s + chance.uniform(*LATE_SECONDS)
    if workload.work_s:
        return now_s + workload.work_s * (1 + number % int(rate * workload.burst_s))
    return now_s


@dataclass(slots=True)
class Account:
    """What became of a workload's messages."""

    published: int = 0
    """Messages with a receipt: 0 to here, exclusive."""

    acknowledged: set[int] = field(default_factory=set)
    """Messages whose acknowledgement got its receipt before the switch."""

    received: set[int] = field(default_factory=set)
    """Messages received after the switch."""

    @property
    def duplicates(self) -> int:
        """Messages that came again although their acknowledgement had its receipt."""
        return len(self.acknowledged & self.received)

    @property
    def missing(self) -> int:
        """Messages that nobody acknowledged before the switch and that have not come after it."""
        return self.published - len((self.acknowledged | self.received) & set(range(self.published)))
