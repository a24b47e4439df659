"""Entries to send again, in the order of the log."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.position import Position


class Replay:
    """Each entry once. What was acknowledged meanwhile is dropped when its turn comes."""

    def __init__(self) -> None:
        """Nothing to send again."""
        self._heap: list[Position] = []
        self._positions: set[Position] = set()
        """The same ones."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._heap)

    def __iter__(self) -> Iterator[Position]:
        """All of them, in no order."""
        return iter(self._heap)

    def __contains__(self, position: Position) -> bool:
        """Whether an entry is to be sent again."""
        return position in self._positions

    def push(self, position: Position) -> None:
        """Send an entry again."""
        if position not in self._positions:
            self._positions.add(position)
            heapq.heappush(self._heap, position)

    def pop(self) -> None:
        """The first one was read."""
        self._positions.discard(heapq.heappop(self._heap))

    def first_run(
        self, limit: int, is_finished: Callable[[Position], bool], is_deleted: Callable[[Position], bool]
    ) -> tuple[Position, Position] | None:
        """The first entries that follow each other, at most ``limit``, as (first, last); None: there are none.

        Those before them that the subscription has done with are dropped, and none of them ``is_deleted``.
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
