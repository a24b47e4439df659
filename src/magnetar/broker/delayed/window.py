"""The delayed entries that one subscription comes to next, in the order of their times: a page of what the index holds.

Pure: pages are asked for and handed in by the owner, who also says what time it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE_MAX = 1000
"""Entries that are read from the index at once. A window holds at most twice as many."""

LATE_MAX = 10 * PAGE_MAX
"""Entries that may come while a page is being read before that page is not worth having."""

TIME_MAX_MS = 2**63 - 1
"""Later than any time."""


class Delayed(NamedTuple):
    """A delayed entry and when it is due. Ordered as they are delivered: by time, then by position."""

    deliver_at_ms: int
    position: Position


FIRST = Delayed(-TIME_MAX_MS, EARLIEST)
"""Before every delayed entry."""

LAST = Delayed(TIME_MAX_MS, LATEST)
"""After every delayed entry."""


class DueWindow:
    """Hands out every entry of the index once, in order, as it becomes due.

    An entry that is added behind others, since a clock may go back, is handed out nevertheless, and so is one that is
    added again after it was taken: whoever takes it must know what it has taken.
    """

    def __init__(self) -> None:
        """Start before every entry, knowing none."""
        self.is_waited_for = False
        """Whether somebody could be sent an entry if one were due."""
        self.epoch = 0
        """Raised by each start; a page that was asked for in an earlier epoch is of no use."""
        self._entries: list[Delayed] = []
        """Ascending: all from ``_start`` (exclusive) to ``_end`` (inclusive), and some before, that were added late."""
        self._start = FIRST
        self._end = FIRST
        self._fetching = False
        self._late: list[Delayed] = []
        """Added beyond ``_end`` while a page is being read, which may have them or not."""

    def restart(self, *, complete: bool) -> None:
        """Start again before every entry; ``complete``: there is none in the index."""
        self.epoch += 1
        self._entries.clear()
        self._late.clear()
        self._start = FIRST
        self._end = LAST if complete else FIRST
        self._fetching = False

    @property
    def next_due_ms(self) -> int | None:
        """When the next entry is due; None when there is none, or it is not known yet."""
        return self._entries[0].deliver_at_ms if self._entries else None

    @property
    def taken_through(self) -> Delayed:
        """Every entry up to and including this one has been taken."""
        through = min(self._start, self._end)
        if self._entries and self._entries[0] <= through:
            deliver_at_ms, (ledger_id, entry_id) = self._entries[0]
            return Delayed(deliver_at_ms, Position(ledger_id, entry_id - 1))
        return through

    @property
    def wants_page(self) -> bool:
        """Whether a page should be read now."""
        return not self._fetching and self._end < LAST and len(self._entries) < PAGE_MAX // 4

    def add(self, entry: Delayed) -> None:
        """An entry came into the index."""
        if entry > self._end:
            if self._fetching and len(self._late) <= LATE_MAX:
                self._late.append(entry)
            return
        at = bisect_left(self._entries, entry)
        if at < len(self._entries) and self._entries[at] == entry:
            return
        self._entries.insert(at, entry)
        if len(self._entries) > 2 * PAGE_MAX:
            del self._entries[PAGE_MAX:]
            self._end = self._entries[-1]

    def take(self, now_ms: int, count_max: int) -> list[Delayed]:
        """The next entries that are due, at most ``count_max``."""
        count = bisect_right(self._entries, Delayed(now_ms, LATEST), hi=min(count_max, len(self._entries)))
        taken = self._entries[:count]
        del self._entries[:count]
        if taken:
            self._start = max(self._start, taken[-1])
        return taken

    def begin_page(self) -> Delayed:
        """A page is being read: return after which entry it has to begin."""
        self._fetching = True
        self._late.clear()
        return self._end

    def page(self, epoch: int, entries: Iterable[Delayed], *, is_last: bool) -> None:
        """The page that was asked for in ``epoch``, ascending; ``is_last``: nothing follows it."""
        if epoch != self.epoch:
            return
        self._fetching = False
        found = list(entries)
        if len(self._late) > LATE_MAX:
            return
        end = LAST if is_last else found[-1]
        late = [entry for entry in self._late if entry <= end]
        self._late.clear()
        self._entries = sorted({*self._entries, *found, *late})
        self._end = end
        if len(self._entries) > 2 * PAGE_MAX:
            del self._entries[PAGE_MAX:]
            self._end = self._entries[-1]

    def no_page(self, epoch: int) -> None:
        """The page that was asked for in ``epoch`` could not be read."""
        if epoch == self.epoch:
            self._fetching = False
