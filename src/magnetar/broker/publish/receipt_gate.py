"""Which receipts of a topic may be written when what is at risk is bounded. Pure: positions and times go in.

A message is at risk from its receipt until enough other clusters have confirmed it. Receipts are withheld so that

* at most ``Bound.messages`` are at risk, exactly: a receipt waits until, with it, there are no more. Zero means that
  nothing is promised before it is elsewhere;
* what is at risk was promised within ``Bound.seconds``: while something older is unconfirmed, nothing is promised. For
  that not to come by stops and starts, no more is promised than the other clusters confirm in that time, less a
  share, at the rate at which they did lately. So the rate of receipts follows the rate of the links.

A producer that waits for receipts is slowed down by that, and no other is. What it has in flight meanwhile is in the
log and goes to the other clusters as well; nobody was promised it.
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
"""Share of what the other clusters confirm within the bound of seconds that may be at risk."""

_RATE_OVER_MIN_S = 1.0
"""Shortest time that a rate is taken over."""

_STEPS = 100
"""Into so many parts the bound of seconds is cut to remember what was promised and confirmed: each is one moment."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How much may be at risk; ``NO_BOUND`` is any number."""

    messages: int = NO_BOUND
    seconds: int = NO_BOUND

    @property
    def is_set(self) -> bool:
        """Whether anything is bounded."""
        return self.messages != NO_BOUND or self.seconds != NO_BOUND


class ReceiptGate:
    """What one topic has promised and what of it is confirmed."""

    def __init__(self, bound: Bound, count: Callable[[Position, Position], int], confirmed: Position) -> None:
        """Enforce ``bound``; ``count`` tells how many of the topic's own entries lie in ``(after, through]``."""
        self.bound = bound
        self.confirmed = confirmed
        """Enough other clusters have everything up to and including it."""
        self._count = count
        self._promised: deque[tuple[Position, float]] = deque()  # ascending, unconfirmed: the last of each, and when
        self._recent: deque[tuple[float, int]] = deque()  # what was confirmed within the bound of seconds, and when
        self._recently_confirmed = 0  # the sum of it

    def at_risk(self, through: Position) -> int:
        """How many messages up to and including ``through`` are not confirmed."""
        return self._count(self.confirmed, through)

    def confirm(self, position: Position, now: float) -> None:
        """Enough other clusters have everything up to ``position``; it goes back when a link does."""
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
        """Whether receipts up to that of ``last`` may be written at ``now``."""
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
        """Receipts up to that of ``last`` were written at ``now``."""
        if self.bound.seconds == NO_BOUND or last <= self.confirmed:
            return
        if self._promised and self._is_same_moment(self._promised[-1][1], now):
            _, now = self._promised.pop()
        self._promised.append((last, now))

    def _is_same_moment(self, earlier: float, now: float) -> bool:
        return now - earlier < self.bound.seconds / _STEPS
