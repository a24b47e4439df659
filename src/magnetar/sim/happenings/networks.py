"""Networks: connections break; places are cut off from each other, or have a slow connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.happenings.base import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable


class Networks(Happening):
    """See the module."""

    name = "networks"

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("connection breaks", 4, self.world.network.break_one, is_fault=True),
            Action("partition", 2, self._partition, is_fault=True),
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
