"""Brokers: periodic work at random times: trimming, cleanup of deduplication state, unloading."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.sim.actions.clients.consumers import Consumers
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.site import Replica, Site


BEFORE_S = 0.05
"""Maximum virtual seconds between an acknowledgement and the unload that must preserve it."""


class Brokers(ActionGroup):
    """See the module."""

    name = "brokers"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("trim", 3, self._trim),
            Action("unload a topic", 1, self._unload),
            Action("unload behind acknowledgements", 1, self._unload_behind_acknowledgements),
        )

    def _trim(self) -> bool:
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        self.trim(site)
        site.loop.create_task(site.maintenance.maintain_deduplication())
        site.loop.create_task(self.simulation.finish_deletions(site))
        return True

    def trim(self, site: Site) -> None:
        """Trim the topics of a running broker."""
        self.simulation.note(site.name, "trims")
        site.loop.create_task(site.maintenance.trim())

    def _unload(self) -> bool:
        loaded = self.simulation.loaded()
        if loaded:
            self.unload(self.chance.choice(loaded))
        return bool(loaded)

    def unload(self, replica: Replica) -> None:
        """Unload a loaded topic, which closes its ledger."""
        self.simulation.note(replica.cluster, f"unloads {replica.name.local_name}")
        replica.site.loop.call_soon(self._unload_now, replica)

    def _unload_behind_acknowledgements(self) -> bool:
        """Unload a topic right after acknowledgements without a receipt, some of which are not written yet."""
        consumer = self.simulation.group(Consumers).holding()
        if consumer is None:
            return False
        replica = self.simulation.replica_of(consumer)
        for _ in range(3):
            self.simulation.later(self.chance.uniform(0.0, BEFORE_S), partial(self._acknowledge_one, consumer))
        self.simulation.note(replica.cluster, f"is about to unload {replica.name.local_name}")
        self.simulation.later(BEFORE_S, partial(self._unload_soon, replica))
        return True

    def _acknowledge_one(self, consumer: SimConsumer) -> None:
        if not self.simulation.is_healed:
            consumer.acknowledge(list(consumer.held.values())[:1], confirmed=False)

    def _unload_soon(self, replica: Replica) -> None:
        if not self.simulation.is_healed and replica.topic is not None:
            replica.site.loop.call_soon(self._unload_now, replica)

    def _unload_now(self, replica: Replica) -> None:
        self.simulation.checks.topics[replica.name].unloads(replica)
        replica.site.topics.unload(replica.name)
