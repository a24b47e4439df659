"""Readers: in peace each has read its cluster's log to the end. The order is checked by ``Readings``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Invariant

if TYPE_CHECKING:
    from magnetar.sim.world import World


class Readers(Invariant):
    """See the module."""

    counted = ("message read", "chunked message put together")

    def __init__(self, world: World) -> None:
        """Watch ``world``."""
        super().__init__(world)
        self._read = self._whole = 0

    def check(self) -> None:
        """See Invariant."""
        read = sum(topic.readings.count for topic in self.world.referee.topics.values())
        self.world.count("message read", read - self._read)
        self._read = read
        whole = sum(topic.readings.whole for topic in self.world.referee.topics.values())
        self.world.count("chunked message put together", whole - self._whole)
        self._whole = whole

    def missing(self) -> str:
        """See Invariant."""
        for reader in self.world.readers:
            unread = self.world.referee.topics[reader.topic].readings.unread(reader)
            if unread:
                return f"{reader.name} in {reader.cluster} has not read {unread} of {reader.topic.local_name}"
        return ""
