"""Queue of the entries to send again, in the order of the log."""

from __future__ import annotations

import heapq
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.position import Position


class Replay:
    """Contains each entry once. Acknowledged entries are dropped when they are reached.

    Entries may be set aside in groups, so that they do not stop the entries after them.
    """

    def __init__(self) -> None:
        """Create an empty queue."""
        self._heap: list[Position] = []
        self._positions: set[Position] = set()
        """The same entries."""
        self._aside: set[Position] = set()
        """Entries that were set aside, which are not in the heap."""
        self._groups: dict[int, list[Position]] = {}
        """A heap of the entries that were set aside, by group."""

    def __len__(self) -> int:
        """Return the number of entries, also those that were set aside."""
        return len(self._heap) + len(self._aside)

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the entries, unordered."""
        return chain(self._heap, *self._groups.values())

    def __contains__(self, position: Position) -> bool:
        """Return whether an entry is in the queue."""
        return position in self._positions or position in self._aside

    def push(self, position: Position) -> None:
        """Add an entry, unless it is present."""
        if position not in self._positions and position not in self._aside:
            self._positions.add(position)
            heapq.heappush(self._heap, position)

    @property
    def aside(self) -> int:
        """Number of entries that were set aside."""
        return len(self._aside)

    def set_aside(self, position: Position, group: int) -> None:
        """Add an entry that is absent, to be sent after ``call_in`` of its group."""
        self._aside.add(position)
        heapq.heappush(self._groups.setdefault(group, []), position)

    def follows(self, position: Position, group: int) -> bool:
        """Return whether an entry of a group comes after one that was set aside."""
        waiting = self._groups.get(group)
        return waiting is not None and waiting[0] < position

    def call_in(self, is_called: Callable[[int], bool], count_max: int) -> None:
        """Put entries of some groups that were set aside in the order of the log again, at most ``count_max``.

        The first entries of a group come first.
        """
        if not self._groups:
            return
        for group in [group for group in self._groups if is_called(group)]:
            waiting = self._groups[group]
            while waiting and count_max:
                position = heapq.heappop(waiting)
                self._aside.discard(position)
                self.push(position)
                count_max -= 1
            if waiting:
                return
            del self._groups[group]

    def pop(self) -> None:
        """Remove the first entry that was not set aside."""
        self._positions.discard(heapq.heappop(self._heap))

    def first_run(
        self, limit: int, is_finished: Callable[[Position], bool], is_deleted: Callable[[Position], bool]
    ) -> tuple[Position, Position] | None:
        """Return the first run of consecutive entries, at most ``limit``, as (first, last); None if there is none.

        Acknowledged entries before it are dropped, and the run ends before the next entry that ``is_deleted``.
        """
        while self._heap and is_finished(self._heap[0]):
            self.pop()
        if not self._heap:
            return None
        first = last = self._heap[0]
        while last.entry_id - first.entry_id + 1 < limit:
            following = last._replace(entry_id=last.entry_id + 1)
            if following not in self._positions or is_deleted(following):
                break
            last = following
        return first, last
