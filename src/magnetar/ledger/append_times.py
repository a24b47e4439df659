"""When the entries of a log were appended: an upper bound for each, in little memory. Pure.

Entries are grouped into windows. All entries of a window share one bound, the time at which the last of them became
durable. Bounds grow with positions, so "older than" is a prefix of the log. Merging two windows moves the bound of the
first to a later time: an entry may seem younger than it is, never older.

Times are seconds of a monotonic clock. A wall clock that is set, in either direction, changes no age.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from magnetar.base.position import Position

WINDOW_S = 0.1
"""Seconds within which appended entries share a window."""

WINDOWS_MAX = 1024
"""Windows of one log, 24 bytes each. Beyond it, windows are merged until half of them are left."""

MERGED_SHARE = 1 / 100
"""Share of its age up to which a merged window may be long. It is doubled while too many windows are left."""


class AppendTimes:
    """Upper bounds of the append times of a log's entries, in position order."""

    def __init__(self) -> None:
        """Start with an empty log."""
        # The first position and the bound of each window, ascending.
        self._ledger_ids = array("q")
        self._entry_ids = array("q")
        self._bounds = array("d")
        self._since = float("-inf")
        """The first window's entries were appended at this time or later, as far as that is known."""
        self._window_end = float("-inf")
        """Entries appended before this time belong to the last window."""

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._bounds)

    def note(self, first: Position, now: float) -> None:
        """Note that the entries from ``first`` on became durable at ``now``; called in position order."""
        if now < self._window_end:
            self._bounds[-1] = now
        else:
            self.begin_window(first, now)
            self._window_end = now + WINDOW_S

    def begin_window(self, first: Position, bound: float) -> None:
        """Note that the entries from ``first`` on were appended at ``bound`` or earlier."""
        if self._bounds:
            bound = max(bound, self._bounds[-1])
        else:
            self._since = bound
        self._ledger_ids.append(first.ledger_id)
        self._entry_ids.append(first.entry_id)
        self._bounds.append(bound)
        if len(self._bounds) > WINDOWS_MAX:
            self._merge(bound)

    def bound_of(self, position: Position) -> float | None:
        """Return a time at which the entry at ``position`` had been appended; None if nothing is known of it."""
        at = bisect_right(range(len(self._bounds)), position, key=self._first_of) - 1
        return self._bounds[at] if at >= 0 else None

    def first_since(self, time: float, *, inclusive: bool = True) -> Position | None:
        """Return the first position that may have been appended at ``time`` or later, None if there is none.

        Unless ``inclusive``, the first that may have been appended later than ``time``.
        """
        at = (bisect_left if inclusive else bisect_right)(self._bounds, time)
        return self._first_of(at) if at < len(self._bounds) else None

    def trim(self, first: Position) -> None:
        """Forget windows that lie wholly before ``first``, the first position of the log now."""
        windows = bisect_right(range(len(self._bounds)), first, key=self._first_of) - 1
        if windows > 0:
            self._since = self._bounds[windows - 1]
            del self._ledger_ids[:windows], self._entry_ids[:windows], self._bounds[:windows]

    def _first_of(self, window: int) -> Position:
        return Position(self._ledger_ids[window], self._entry_ids[window])

    def _merge(self, now: float) -> None:
        """Merge windows until at most half of WINDOWS_MAX are left."""
        share = MERGED_SHARE
        while len(self._bounds) > WINDOWS_MAX // 2:
            self._merge_within(share, now)
            share *= 2

    def _merge_within(self, share: float, now: float) -> None:
        """Merge each window into the one before it where the result is no longer than ``share`` of its age."""
        ledger_ids, entry_ids, bounds = array("q"), array("q"), array("d")
        start = before = self._since
        for window, bound in enumerate(self._bounds):
            if bounds and bound - start <= share * (now - bound):
                bounds[-1] = bound
            else:
                start = before  # the entries of this window were appended later than those of the one before
                ledger_ids.append(self._ledger_ids[window])
                entry_ids.append(self._entry_ids[window])
                bounds.append(bound)
            before = bound
        self._ledger_ids, self._entry_ids, self._bounds = ledger_ids, entry_ids, bounds
