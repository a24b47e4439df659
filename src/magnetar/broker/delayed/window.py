"""The next delayed entries of one subscription, in the order of their times: a page of the index.

Pure: the owner requests and passes in pages, and passes the time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE_MAX = 1000
"""Entries of a page. A window holds at most twice as many."""

LATE_MAX = 10 * PAGE_MAX
"""Maximum number of entries that may arrive while a page is being read; beyond, the page is discarded."""

TIME_MAX_MS = 2**63 - 1
"""A time after all others."""


class Delayed(NamedTuple):
    """A delayed entry and its time. Ordered by delivery: by time, then by position."""

    deliver_at_ms: int
    position: Position


FIRST = Delayed(-TIME_MAX_MS, EARLIEST)
"""Before all delayed entries."""

LAST = Delayed(TIME_MAX_MS, LATEST)
"""After all delayed entries."""


class DueWindow:
    """Hands out every entry of the index once, in order, when it is due.

    An entry with an earlier time than entries that were handed out, after the clock was set back, is handed out as
    well. So is an entry that is added again after it was taken: the subscription must know the entries that it has
    taken.
    """

    def __init__(self) -> None:
        """Start before all entries; none is known."""
        self.is_awaited = False
        """Whether the subscription waits for a due entry."""
        self.epoch = 0
        """Increased by each start; pages of an earlier epoch are ignored."""
        self._entries: list[Delayed] = []
        """Ascending: all entries from ``_start`` (exclusive) to ``_end`` (inclusive), and some earlier late ones."""
        self._start = FIRST
        self._end = FIRST
        self._fetching = False
        self._late: list[Delayed] = []
        """Entries added after ``_end`` while a page is being read, which may or may not contain them."""
        self._late_first: Delayed | None = None
        """The first of the entries that ``cut`` announced while a page is being read."""

    def restart(self, *, complete: bool) -> None:
        """Start again before all entries; ``complete``: the index has none."""
        self.epoch += 1
        self._entries.clear()
        self._late.clear()
        self._late_first = None
        self._start = FIRST
        self._end = LAST if complete else FIRST
        self._fetching = False

    @property
    def next_due_ms(self) -> int | None:
        """Time of the next entry; None if there is none, or if it is unknown."""
        return self._entries[0].deliver_at_ms if self._entries else None

    def has_taken(self, now_ms: int) -> bool:
        """Return whether all entries that are due were taken; False if some are not known yet."""
        due = Delayed(now_ms, LATEST)
        return self._end >= due and not (self._entries and self._entries[0] <= due)

    @property
    def taken_through(self) -> Delayed:
        """Entry up to which, inclusive, all entries were taken."""
        through = min(self._start, self._end)
        if self._entries and self._entries[0] <= through:
            return _before(self._entries[0])
        return through

    @property
    def wants_page(self) -> bool:
        """Whether a page should be read now."""
        return not self._fetching and self._end < LAST and len(self._entries) < PAGE_MAX // 4

    def add(self, entry: Delayed) -> None:
        """Add an entry of the index."""
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

    def cut(self, first: Delayed) -> None:
        """Drop the entries from ``first`` on: the index got others among them, which the next pages contain.

        A page that is being read may lack them.
        """
        if first <= self._end:
            del self._entries[bisect_left(self._entries, first) :]
            self._end = _before(first)
            if self._fetching:  # the page begins after the new end
                self._fetching = False
                self.epoch += 1
        elif self._fetching and (self._late_first is None or first < self._late_first):
            self._late_first = first

    def take(self, now_ms: int, count_max: int) -> list[Delayed]:
        """Take the next due entries, at most ``count_max``."""
        count = bisect_right(self._entries, Delayed(now_ms, LATEST), hi=min(count_max, len(self._entries)))
        taken = self._entries[:count]
        del self._entries[:count]
        if taken:
            self._start = max(self._start, taken[-1])
        return taken

    def begin_page(self) -> Delayed:
        """Note that a page is being read; return the entry after which it must begin."""
        self._fetching = True
        self._late.clear()
        self._late_first = None
        return self._end

    def page(self, epoch: int, entries: Iterable[Delayed], *, is_last: bool) -> None:
        """Add the page that was requested in ``epoch``, ascending; ``is_last``: no entry follows it."""
        if epoch != self.epoch:
            return
        self._fetching = False
        found = list(entries)
        if len(self._late) > LATE_MAX:
            return
        end = LAST if is_last else found[-1]
        if self._late_first is not None and self._late_first <= end:
            found = found[: bisect_left(found, self._late_first)]
            end = _before(self._late_first)
        late = [entry for entry in self._late if entry <= end]
        self._late.clear()
        self._entries = sorted({*self._entries, *found, *late})
        self._end = end
        if len(self._entries) > 2 * PAGE_MAX:
            del self._entries[PAGE_MAX:]
            self._end = self._entries[-1]

    def no_page(self, epoch: int) -> None:
        """Handle that the page requested in ``epoch`` could not be read."""
        if epoch == self.epoch:
            self._fetching = False


def _before(entry: Delayed) -> Delayed:
    """Return the place directly before an entry."""
    deliver_at_ms, (ledger_id, entry_id) = entry
    return Delayed(deliver_at_ms, Position(ledger_id, entry_id - 1))
