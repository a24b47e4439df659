"""The well-behaved client as the tests see it: what it experienced in a window of time."""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tests.hostile.well_behaved import DUE, EVENT, RECEIPT, RECEIVED
from tests.kit.child import ChildProcess
from tests.kit.measure import percentiles
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SETTLE_TIMEOUT_S = 60.0
"""Seconds until everything that was published must have its receipt and must have been received."""

WARM_UP = 100
"""Messages before anything is measured."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Milliseconds from the time at which a message was due, and the longest time between two of these events."""

    p50: float
    p99: float
    gap: float


@dataclass(frozen=True, slots=True)
class Experience:
    """What the client experienced in a window."""

    messages: int
    receipt: Durations
    receive: Durations

    @property
    def gap(self) -> float:
        """The longer of both gaps, in milliseconds."""
        return max(self.receipt.gap, self.receive.gap)


@dataclass(frozen=True, slots=True)
class Account:
    """What became of messages."""

    without_receipt: int
    lost: int
    repeated: int
    is_in_order: bool


@dataclass(slots=True)
class _Events:
    due: dict[int, float] = field(default_factory=dict)
    receipts: dict[int, float] = field(default_factory=dict)
    received: dict[int, list[float]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    """Numbers in the order in which they were received."""


class Bystander:
    """The process, and its journal."""

    def __init__(self, urls: tuple[str, str], topic: str, directory: Path) -> None:
        """Publish at the first service URL, consume at the second, and wait until messages come back."""
        self._path = directory / "journal"
        self._offset = 0
        self._events = _Events()
        self._settled = 0
        """Messages below this number were accounted for."""
        self._ordered = 0
        """As many of the received messages were accounted for."""
        command = [sys.executable, "-m", "tests.hostile.well_behaved", *urls, topic, str(self._path)]
        self._process = ChildProcess(command, directory, "well-behaved")
        wait_until(lambda: len(self._read().received) >= WARM_UP, SETTLE_TIMEOUT_S, what="the well-behaved client")

    def __enter__(self) -> Self:
        """Return itself; the process ends at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop it."""
        self._process.stop()

    def catch_up(self) -> range:
        """Wait until what is published by now has its receipt and was received; return what was not accounted for.

        A window that begins then does not show the delays of what happened before it.
        """
        self._process.require_running()
        numbers = range(self._settled, max(self._read().due) + 1)

        def is_settled() -> bool:
            events = self._read()
            return all(number in events.receipts and number in events.received for number in numbers)

        with contextlib.suppress(TimeoutError):
            wait_until(is_settled, SETTLE_TIMEOUT_S, interval_s=0.1)
        return numbers

    def settle(self) -> Account:
        """Catch up; return what became of the messages that were published since the last call."""
        numbers = self.catch_up()
        events, self._settled = self._read(), numbers.stop
        order, self._ordered = events.order[self._ordered :], len(events.order)
        return Account(
            without_receipt=sum(number not in events.receipts for number in numbers),
            lost=sum(number not in events.received for number in numbers),
            repeated=sum(len(events.received.get(number, [])) > 1 for number in numbers),
            is_in_order=all(before <= after for before, after in itertools.pairwise(order)),
        )

    def experience(self, start: float, end: float) -> Experience:
        """Return what the client experienced with messages due between two moments of the monotonic clock.

        The longest gap may have begun before the first of them.
        """
        events = self._read()
        numbers = [number for number, at in events.due.items() if start <= at <= end]
        received = {number: times[0] for number, times in events.received.items()}
        return Experience(
            len(numbers),
            _durations(numbers, start, events.due, events.receipts),
            _durations(numbers, start, events.due, received),
        )

    def _read(self) -> _Events:
        """Take over what was written since the last time."""
        if not self._path.exists():
            return self._events
        with self._path.open("rb") as journal:
            journal.seek(self._offset)
            data = journal.read()
        data = data[: len(data) - len(data) % EVENT.size]
        self._offset += len(data)
        for kind, number, at in EVENT.iter_unpack(data):
            if kind == DUE:
                self._events.due[number] = at
            elif kind == RECEIPT:
                self._events.receipts[number] = at
            elif kind == RECEIVED:
                self._events.received.setdefault(number, []).append(at)
                self._events.order.append(number)
        return self._events


def _durations(numbers: Sequence[int], start: float, due: Mapping[int, float], done: Mapping[int, float]) -> Durations:
    ranks = percentiles((done[number] - due[number]) * 1000 for number in numbers if number in done)
    last_before = max((at for at in done.values() if at <= start), default=start)
    times = [done[number] for number in range(numbers[-1] + 1) if done.get(number, 0.0) > start]
    return Durations(ranks["p50"], ranks["p99"], longest_gap([last_before, *times]) * 1000)


def longest_gap(times: Sequence[float]) -> float:
    """Return the longest time between two neighbours, in seconds; 0 for fewer than two times."""
    ordered = sorted(times)
    return max((after - before for before, after in itertools.pairwise(ordered)), default=0.0)
