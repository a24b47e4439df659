"""Queue of the entries to send again, in the order of the log."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.position import Position


class Replay:
    """Contains each entry once. Acknowledged entries are dropped when they are reached."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._heap: list[Position] = []
        self._positions: set[Position] = set()
        """The same entries."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._heap)

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the entries, unordered."""
        return iter(self._heap)

    def __contains__(self, position: Position) -> bool:
        """Return whether an entry is in the queue."""
        return position in self._positions

    def push(self, position: Position) -> None:
        """Add an entry."""
        if position not in self._positions:
            self._positions.add(position)
            heapq.heappush(self._heap, position)

    def pop(self) -> None:
        """Remove the first entry."""
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
