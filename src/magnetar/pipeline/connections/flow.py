"""Flow control: the limits of data in flight, and delays after refusals. Pure: `now` and randomness are arguments."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.pipeline import limits

if TYPE_CHECKING:
    from random import Random

    from magnetar.base.position import Position

_AVERAGE_WEIGHT = 1 / 16
"""Weight of the newest entry in the average entry size."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter, in seconds."""

    initial: float
    maximum: float

    def delay(self, attempt: int, rng: Random) -> float:
        """Return the seconds before retry ``attempt``, from 0: between half and all of the exponential value."""
        exponential = min(self.maximum, self.initial * 2.0 ** min(attempt, 32))
        return exponential * rng.uniform(0.5, 1.0)


class Budget:
    """The bytes in flight to one target, over all its topics."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        """Begin without bytes."""
        self.used = 0

    @property
    def spent(self) -> bool:
        """Return whether topics with bytes in flight must wait before they request more."""
        return self.used >= limits.TARGET_BYTES

    @property
    def overdrawn(self) -> bool:
        """Return whether reading from the sources must pause."""
        return self.used >= 2 * limits.TARGET_BYTES


class Window:
    """The window of one attachment: permits granted to the source's dispatcher, and unconfirmed entries.

    The limit starts small and grows with confirmations while the source uses up its permits. So it doubles with each
    round trip of a backlog, and stays small for a topic with little traffic.
    """

    __slots__ = (
        "_average",
        "_budget",
        "_in_flight",
        "_limit",
        "_markers",
        "_promised",
        "in_flight",
        "in_flight_bytes",
    )

    def __init__(self, budget: Budget) -> None:
        """Create a window that uses ``budget``."""
        self._budget = budget
        self._limit = limits.WINDOW_ENTRIES_INITIAL
        self._promised = 0
        self._average = 0.0
        self._in_flight: deque[tuple[Position, int, bool, int]] = deque()
        """Position, bytes, whether it is a marker, and the number of entries of a run, which has its last position."""
        self.in_flight = 0
        """Number of received, unconfirmed entries."""
        self._markers = 0
        """Number of markers in flight."""
        self.in_flight_bytes = 0

    def grant(self) -> int:
        """Return the permits to grant now, counted as granted; 0 if the source has enough or the budget is spent."""
        size = self._size()
        is_busy = self._promised > 0 or bool(self._in_flight)
        if is_busy and (self._budget.spent or 2 * self._promised > size):
            return 0
        room = 1 if self._budget.spent else size - self.in_flight + self._markers
        permits = room - self._promised
        if permits <= 0:
            return 0
        self._promised += permits
        return permits

    def arrived(
        self, position: Position, size: int, permits: int = 1, *, is_marker: bool = False, entries: int = 1
    ) -> None:
        """Count an entry of ``size`` bytes from the source, or a run, and the ``permits`` that it used.

        A marker does not affect the average size, and leaves its place in the window to the next entry.

        Apache Pulsar counts messages: it sends a batch that is larger than its remaining permits, and then nothing
        until it has received more permits than the batch exceeded.
        """
        self._promised -= permits
        if is_marker:
            self._markers += 1
        else:
            self._measure(size / entries)
        self._in_flight.append((position, size, is_marker, entries))
        self.in_flight += entries
        self.in_flight_bytes += size
        self._budget.used += size

    def passed_over(self, permits: int, size: int) -> None:
        """Count an entry of ``size`` bytes without a receipt, and the ``permits`` that it used."""
        self._promised -= permits
        self._measure(size)

    def confirmed(self, through: Position) -> int:
        """Release everything up to and including ``through``; return the number of entries."""
        count = released = 0
        while self._in_flight and self._in_flight[0][0] <= through:
            _, size, is_marker, entries = self._in_flight.popleft()
            released += size
            self._markers -= is_marker
            count += entries
        self.in_flight -= count
        self.in_flight_bytes -= released
        self._budget.used -= released
        if 2 * self._promised <= self._limit:
            self._limit = min(self._limit + count, limits.WINDOW_ENTRIES_MAX)
        return count

    def close(self) -> None:
        """Release everything. Entries in flight are dropped, and stay in the source's log."""
        self._budget.used -= self.in_flight_bytes
        self.in_flight_bytes = 0
        self._in_flight.clear()
        self.in_flight = self._markers = 0

    def _measure(self, size: float) -> None:
        self._average = self._average + (size - self._average) * _AVERAGE_WEIGHT if self._average else size

    def _size(self) -> int:
        """Return the maximum number of outstanding entries: the limit, or fewer if they are large or unmeasured."""
        by_bytes = int(limits.WINDOW_BYTES / self._average) if self._average else limits.WINDOW_ENTRIES_UNMEASURED
        return max(1, min(self._limit, by_bytes))
