"""Networks: broken connections, two-way and one-way partitions, isolated clients, slow connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.clients.producer import SimProducer


class Networks(ActionGroup):
    """See the module."""

    name = "networks"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("connection breaks", 4, self.simulation.network.break_one, is_fault=True),
            Action("partition", 2, self._partition, is_fault=True),
            Action("one-way partition", 2, self._partition_one_way, is_fault=True),
            Action("clients cut off from their cluster", 1, self._isolate_clients, is_fault=True),
            Action("slow connection", 2, self._slow_down, is_fault=True),
            Action("network heals", 3, self._heal, is_fault=True),
        )

    def heal(self) -> None:
        """See ActionGroup."""
        self.simulation.network.heal()

    def _partition(self) -> bool:
        places = self._two_places()
        self.simulation.note(min(places), f"is cut off from {max(places)}")
        self.simulation.network.partition(places)
        return True

    def _partition_one_way(self) -> bool:
        source, target = self.chance.sample(list(self.simulation.sites), 2)
        self.simulation.note(source, f"nothing that it sends reaches {target}")
        self.simulation.network.partition_one_way(source, target)
        return True

    def _isolate_clients(self) -> bool:
        cluster = self.chance.choice(list(self.simulation.sites))
        every: list[SimProducer | SimConsumer] = [*self.simulation.producers, *self.simulation.consumers]
        clients = [each for each in every if each.cluster == cluster]
        self.simulation.note(cluster, "its clients are cut off from it")
        for client in clients:
            self.simulation.network.isolate(client.machine)
        return bool(clients)

    def _slow_down(self) -> bool:
        places = self._two_places()
        self.simulation.note(min(places), f"has a slow connection to {max(places)}")
        self.simulation.network.slow.add(places)
        return True

    def _heal(self) -> bool:
        self.simulation.note(min(self.simulation.sites), "the network heals")
        self.simulation.network.heal()
        return True

    def _two_places(self) -> frozenset[str]:
        return frozenset(self.chance.sample(list(self.simulation.sites), 2))
