"""Readers: in the liveness phase each reads its cluster's log to the end. ``Readings`` checks the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.sim.simulation import Simulation


class Readers(Invariant):
    """See the module."""

    counted = ("message read", "chunked message put together")

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._read = self._whole = 0

    def check(self) -> None:
        """See Invariant."""
        read = sum(topic.readings.count for topic in self.simulation.checks.topics.values())
        self.simulation.count("message read", read - self._read)
        self._read = read
        whole = sum(topic.readings.whole for topic in self.simulation.checks.topics.values())
        self.simulation.count("chunked message put together", whole - self._whole)
        self._whole = whole

    def missing(self) -> str:
        """See Invariant."""
        for reader in self.simulation.readers:
            unread = self.simulation.checks.topics[reader.topic].readings.unread(reader)
            if unread:
                return f"{reader.name} in {reader.cluster} has not read {unread} of {reader.topic.local_name}"
        return ""
