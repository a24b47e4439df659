"""How much may be under way, and how long to wait after a refusal. Pure: `now` and chance are arguments."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.pipeline import limits

if TYPE_CHECKING:
    from random import Random

    from magnetar.base.position import Position

_AVERAGE_WEIGHT = 1 / 16
"""Share of the newest entry in the average entry size."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter, in seconds."""

    initial: float
    maximum: float

    def delay(self, attempt: int, rng: Random) -> float:
        """Seconds to wait before retry ``attempt``, counted from 0: between half and all of the exponential."""
        exponential = min(self.maximum, self.initial * 2.0 ** min(attempt, 32))
        return exponential * rng.uniform(0.5, 1.0)


class Budget:
    """Bytes that are under way to one target, over all its topics."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        """Start with nothing under way."""
        self.used = 0

    @property
    def spent(self) -> bool:
        """Whether topics that have something under way must wait before they ask for more."""
        return self.used >= limits.TARGET_BYTES

    @property
    def overdrawn(self) -> bool:
        """Whether the sources must not even be read."""
        return self.used >= 2 * limits.TARGET_BYTES


class Window:
    """The credit of one attachment: entries promised to the source's dispatcher, and entries not yet confirmed.

    The limit starts small and grows by what is confirmed while the source uses up its permits, so it doubles with
    each round trip of a backlog and stays small for a topic that trickles.
    """

    __slots__ = ("_average", "_budget", "_in_flight", "_limit", "_markers", "_promised", "in_flight_bytes")

    def __init__(self, budget: Budget) -> None:
        """Open a window that draws on ``budget``."""
        self._budget = budget
        self._limit = limits.WINDOW_ENTRIES_INITIAL
        self._promised = 0
        self._average = 0.0
        self._in_flight: deque[tuple[Position, int, bool]] = deque()
        """Position, bytes, and whether it is a marker."""
        self._markers = 0
        """Markers in flight."""
        self.in_flight_bytes = 0

    @property
    def in_flight(self) -> int:
        """Entries that arrived and are not confirmed."""
        return len(self._in_flight)

    def grant(self) -> int:
        """Permits to give the source now, counted as given; 0 while what it has is enough or memory is short."""
        size = self._size()
        is_busy = self._promised > 0 or bool(self._in_flight)
        if is_busy and (self._budget.spent or 2 * self._promised > size):
            return 0
        room = 1 if self._budget.spent else size - len(self._in_flight) + self._markers
        permits = room - self._promised
        if permits <= 0:
            return 0
        self._promised += permits
        return permits

    def arrived(self, position: Position, size: int, permits: int = 1, *, is_marker: bool = False) -> None:
        """Count an entry of ``size`` bytes that the source sent, and the ``permits`` that it used.

        A marker says nothing about the size of other entries, and leaves its room in the window to the next one.

        Apache Pulsar counts messages: it sends a batch that is larger than what is left of its permits, and then
        nothing until it was given more than it took too many.
        """
        self._promised -= permits
        if is_marker:
            self._markers += 1
        else:
            self._measure(size)
        self._in_flight.append((position, size, is_marker))
        self.in_flight_bytes += size
        self._budget.used += size

    def passed_over(self, permits: int, size: int) -> None:
        """Count an entry of ``size`` bytes that needs no receipt, and the ``permits`` that it used."""
        self._promised -= permits
        self._measure(size)

    def confirmed(self, through: Position) -> int:
        """Release everything up to and including ``through``; returns the number of entries."""
        count = released = 0
        while self._in_flight and self._in_flight[0][0] <= through:
            _, size, is_marker = self._in_flight.popleft()
            released += size
            self._markers -= is_marker
            count += 1
        self.in_flight_bytes -= released
        self._budget.used -= released
        if 2 * self._promised <= self._limit:
            self._limit = min(self._limit + count, limits.WINDOW_ENTRIES_MAX)
        return count

    def close(self) -> None:
        """Give back everything: what was under way is forgotten here and stays in the source's log."""
        self._budget.used -= self.in_flight_bytes
        self.in_flight_bytes = 0
        self._in_flight.clear()
        self._markers = 0

    def _measure(self, size: int) -> None:
        self._average = self._average + (size - self._average) * _AVERAGE_WEIGHT if self._average else float(size)

    def _size(self) -> int:
        """Entries that may be outstanding: the limit, or fewer when they are large or not measured yet."""
        by_bytes = int(limits.WINDOW_BYTES / self._average) if self._average else limits.WINDOW_ENTRIES_UNMEASURED
        return max(1, min(self._limit, by_bytes))
