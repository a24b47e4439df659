"""Networks: connections break; places are cut off, also one way; a cluster's clients are cut off; all gets slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.clients.producer import SimProducer


class Networks(Happening):
    """See the module."""

    name = "networks"

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("connection breaks", 4, self.world.network.break_one, is_fault=True),
            Action("partition", 2, self._partition, is_fault=True),
            Action("one-way partition", 2, self._partition_one_way, is_fault=True),
            Action("clients cut off from their cluster", 1, self._isolate_clients, is_fault=True),
            Action("slow connection", 2, self._slow_down, is_fault=True),
            Action("network heals", 3, self._heal, is_fault=True),
        )

    def heal(self) -> None:
        """See Happening."""
        self.world.network.heal()

    def _partition(self) -> bool:
        places = self._two_places()
        self.world.note(min(places), f"is cut off from {max(places)}")
        self.world.network.partition(places)
        return True

    def _partition_one_way(self) -> bool:
        source, target = self.chance.sample(list(self.world.sites), 2)
        self.world.note(source, f"nothing that it sends reaches {target}")
        self.world.network.partition_one_way(source, target)
        return True

    def _isolate_clients(self) -> bool:
        cluster = self.chance.choice(list(self.world.sites))
        every: list[SimProducer | SimConsumer] = [*self.world.producers, *self.world.consumers]
        clients = [each for each in every if each.cluster == cluster]
        self.world.note(cluster, "its clients are cut off from it")
        for client in clients:
            self.world.network.isolate(client.machine)
        return bool(clients)

    def _slow_down(self) -> bool:
        places = self._two_places()
        self.world.note(min(places), f"has a slow connection to {max(places)}")
        self.world.network.slow.add(places)
        return True

    def _heal(self) -> bool:
        self.world.note(min(self.world.sites), "the network heals")
        self.world.network.heal()
        return True

    def _two_places(self) -> frozenset[str]:
        return frozenset(self.chance.sample(list(self.world.sites), 2))
