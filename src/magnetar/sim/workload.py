"""Random actions from the groups that the scenario enables."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.sim.simulation import Action, Simulation


class Workload:
    """Chooses actions by weight: first between operations and faults, then among the actions."""

    def __init__(self, simulation: Simulation) -> None:
        """Run actions in ``simulation``."""
        self._world = simulation
        weighted: dict[bool, list[tuple[Action, float]]] = {False: [], True: []}
        for group in simulation.action_groups:
            factor = simulation.scenario.weight(group.name)
            for action in group.actions() if factor else ():
                weighted[action.is_fault].append((action, action.weight * factor))
        self._choices = {
            is_fault: ([action for action, _ in pairs], list(accumulate(weight for _, weight in pairs)))
            for is_fault, pairs in weighted.items()
        }

    def begin(self) -> None:
        """Prepare all enabled groups."""
        for group in self._world.action_groups:
            if self._world.scenario.weight(group.name):
                group.begin()

    def act(self) -> None:
        """Run one random action."""
        chance = self._world.chance
        actions, weights = self._choices[chance.random() < self._world.scenario.fault_share]
        if actions:
            (action,) = chance.choices(actions, cum_weights=weights)
            self._world.count(action.name, action.do())

    def heal(self) -> None:
        """End all faults, and make every cluster create its missing topics."""
        self._world.is_healed = True
        for group in self._world.action_groups:
            group.heal()
        for site in self._world.running():
            site.loop.create_task(self._world.have_topics(site))
