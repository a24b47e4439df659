"""When each of many topics needs a look: a queue by time that holds each topic once. Pure."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.names import TopicName


class Agenda:
    """Topics by the time of their next look, in monotonic seconds. It holds each topic at most once."""

    def __init__(self) -> None:
        """Start with no topic."""
        self._at: dict[TopicName, float] = {}
        self._queue: list[tuple[float, TopicName]] = []
        """A heap. Pairs that differ from ``_at`` are out of date."""

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._at)

    def names(self) -> Iterable[TopicName]:
        """Return the topics, in no order; not to be changed meanwhile."""
        return self._at.keys()

    def at(self, name: TopicName) -> float | None:
        """Return when the topic needs a look; None if it is not held."""
        return self._at.get(name)

    def put(self, name: TopicName, at: float) -> None:
        """Hold a topic until ``at``, in place of any earlier plan for it."""
        self._at[name] = at
        heapq.heappush(self._queue, (at, name))
        if len(self._queue) > 2 * len(self._at) + 16:
            self._queue = [(at, name) for name, at in self._at.items()]
            heapq.heapify(self._queue)

    def discard(self, name: TopicName) -> None:
        """Hold a topic no longer."""
        self._at.pop(name, None)

    def take_due(self, now: float) -> TopicName | None:
        """Remove and return the topic whose time came first, at ``now`` or earlier; None if there is none."""
        while self._queue and self._queue[0][0] <= now:
            at, name = heapq.heappop(self._queue)
            if self._at.get(name) == at:
                del self._at[name]
                return name
        return None
