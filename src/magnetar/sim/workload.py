"""One random thing after another, of the kinds that the scenario enables."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.sim.world import Action, World


class Workload:
    """Chooses among the actions by their weights: first between operations and faults, then one of them."""

    def __init__(self, world: World) -> None:
        """Act on ``world``."""
        self._world = world
        weighted: dict[bool, list[tuple[Action, float]]] = {False: [], True: []}
        for happening in world.happenings:
            factor = world.scenario.weight(happening.name)
            for action in happening.actions() if factor else ():
                weighted[action.is_fault].append((action, action.weight * factor))
        self._choices = {
            is_fault: ([action for action, _ in pairs], list(accumulate(weight for _, weight in pairs)))
            for is_fault, pairs in weighted.items()
        }

    def begin(self) -> None:
        """Prepare the world."""
        for happening in self._world.happenings:
            if self._world.scenario.weight(happening.name):
                happening.begin()

    def act(self) -> None:
        """Let one thing happen."""
        chance = self._world.chance
        actions, weights = self._choices[chance.random() < self._world.scenario.fault_share]
        if actions:
            (action,) = chance.choices(actions, cum_weights=weights)
            self._world.count(action.name, action.do())

    def heal(self) -> None:
        """Let everything be well from now on."""
        self._world.is_healed = True
        for happening in self._world.happenings:
            happening.heal()
        for site in self._world.running():
            site.loop.create_task(self._world.have_topics(site))
