"""A queue of topics by the time of their next check. Pure."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.names import TopicName


class Agenda:
    """Topics by the time of their next check, in monotonic seconds. Each topic occurs at most once."""

    def __init__(self) -> None:
        """Create an empty agenda."""
        self._at: dict[TopicName, float] = {}
        self._queue: list[tuple[float, int, TopicName]] = []
        """A heap. Times that differ from ``_at`` are obsolete. The numbers save comparisons of names."""
        self._numbers = count()

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._at)

    def names(self) -> Sequence[TopicName]:
        """Return the topics, unordered."""
        return tuple(self._at)

    def at(self, name: TopicName) -> float | None:
        """Return the time of the topic's next check; None if it is not in the agenda."""
        return self._at.get(name)

    def put(self, name: TopicName, at: float) -> None:
        """Schedule a topic's next check for ``at``; replaces an earlier time."""
        self._at[name] = at
        heapq.heappush(self._queue, (at, next(self._numbers), name))
        if len(self._queue) > 2 * len(self._at) + 16:
            self._queue = [(at, next(self._numbers), name) for name, at in self._at.items()]
            heapq.heapify(self._queue)

    def take_due(self, now: float) -> TopicName | None:
        """Remove and return the earliest topic that is due at ``now``; None if none is due."""
        while self._queue and self._queue[0][0] <= now:
            at, _, name = heapq.heappop(self._queue)
            if self._at.get(name) == at:
                del self._at[name]
                return name
        return None
