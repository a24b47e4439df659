"""Brokers: what they do from time to time, here at any time: trim, tend what deduplication keeps, unload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.happenings.base import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.replica import Replica


class Brokers(Happening):
    """See the module."""

    name = "brokers"

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (Action("trim", 3, self._trim), Action("unload a topic", 1, self._unload))

    def _trim(self) -> bool:
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        self.world.note(site.name, "trims")
        site.loop.create_task(site.maintenance.trim())
        site.loop.create_task(site.maintenance.tend_deduplication())
        return True

    def _unload(self) -> bool:
        loaded = self.world.loaded()
        if not loaded:
            return False
        replica = self.chance.choice(loaded)
        self.world.note(replica.cluster, f"unloads {replica.name.local_name}")
        replica.site.loop.call_soon(self._unload_now, replica)
        return True

    def _unload_now(self, replica: Replica) -> None:
        self.world.referee.topics[replica.name].unloads(replica)
        replica.site.topics.unload(replica.name)
