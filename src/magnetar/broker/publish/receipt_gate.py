"""Decision which receipts of a topic may be written while the messages at risk are limited. Pure.

A message is at risk from its receipt until enough other clusters have confirmed it. Receipts are withheld so that

* at most ``Bound.messages`` are at risk, exactly: a receipt waits until the number, including its own message, is
  within the bound. Zero means that another cluster has a message before its receipt;
* messages at risk have receipts of the last ``Bound.seconds``: while an older one is unconfirmed, no receipt is
  written. To avoid alternating stops and starts, the messages at risk are also limited to a share of the messages that
  the other clusters confirm in that time, at their recent rate. The rate of receipts thus follows the rate of the
  links.

This slows down producers that wait for receipts, and no others. Their entries in flight are in the log and are sent to
the other clusters.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.position import Position

NO_BOUND = -1

WINDOW_MIN = 1000
"""Messages that may be at risk under a bound of seconds before the rate of the links is known."""

WINDOW_SHARE = 0.8
"""Share of the messages confirmed by other clusters within the bound of seconds that may be at risk."""

_RATE_OVER_MIN_S = 1.0
"""Shortest time over which a rate is measured."""

_STEPS = 100
"""Number of parts of the bound of seconds; receipts and confirmations of one part count as one moment."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Limit of messages at risk; ``NO_BOUND``: no limit."""

    messages: int = NO_BOUND
    seconds: int = NO_BOUND

    @property
    def is_set(self) -> bool:
        """Return whether there is a limit."""
        return self.messages != NO_BOUND or self.seconds != NO_BOUND


class ReceiptGate:
    """Receipts of one topic and their confirmations."""

    def __init__(self, bound: Bound, count: Callable[[Position, Position], int], confirmed: Position) -> None:
        """Enforce ``bound``; ``count`` returns the number of the topic's own entries in ``(after, through]``."""
        self.bound = bound
        self.confirmed = confirmed
        """Position up to which, inclusive, enough other clusters have all entries."""
        self._count = count
        self._promised: deque[tuple[Position, float]] = deque()  # ascending, unconfirmed: of each moment, with its time
        self._recent: deque[tuple[float, int]] = deque()  # confirmations within the bound of seconds, and their times
        self._recently_confirmed = 0  # their sum

    def at_risk(self, through: Position) -> int:
        """Return the number of unconfirmed messages up to and including ``through``."""
        return self._count(self.confirmed, through)

    def confirm(self, position: Position, now: float) -> None:
        """Set the position up to which enough other clusters have all entries; it can decrease."""
        if position > self.confirmed:
            newly = self.at_risk(position)
            if newly and self.bound.seconds != NO_BOUND:
                self._note_rate(newly, now)
        self.confirmed = position
        while self._promised and self._promised[0][0] <= position:
            self._promised.popleft()

    def _note_rate(self, newly: int, now: float) -> None:
        self._recently_confirmed += newly
        if self._recent and self._is_same_moment(self._recent[-1][0], now):
            now, before = self._recent.pop()
            newly += before
        self._recent.append((now, newly))
        self._forget(now - self.bound.seconds)

    def _forget(self, before: float) -> None:
        while self._recent and self._recent[0][0] <= before:
            self._recently_confirmed -= self._recent.popleft()[1]

    def may_promise(self, last: Position, now: float) -> bool:
        """Return whether receipts up to that of ``last`` may be written at ``now``."""
        at_risk = self.at_risk(last)
        if not at_risk:
            return True
        if self.bound.messages != NO_BOUND and at_risk > self.bound.messages:
            return False
        return self.bound.seconds == NO_BOUND or self._in_time(at_risk, now)

    def _in_time(self, at_risk: int, now: float) -> bool:
        since = now - self.bound.seconds
        self._forget(since)
        if not self.bound.seconds or (self._promised and self._promised[0][1] <= since):
            return False
        return at_risk <= max(WINDOW_MIN, self._window(now))

    def _window(self, now: float) -> float:
        if not self._recent:
            return 0
        per_second = self._recently_confirmed / max(_RATE_OVER_MIN_S, now - self._recent[0][0])
        return per_second * self.bound.seconds * WINDOW_SHARE

    def promised(self, last: Position, now: float) -> None:
        """Note that receipts up to that of ``last`` were written at ``now``."""
        if self.bound.seconds == NO_BOUND or last <= self.confirmed:
            return
        if self._promised and self._is_same_moment(self._promised[-1][1], now):
            _, now = self._promised.pop()
        self._promised.append((last, now))

    def _is_same_moment(self, earlier: float, now: float) -> bool:
        return now - earlier < self.bound.seconds / _STEPS
