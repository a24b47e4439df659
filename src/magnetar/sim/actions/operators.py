"""Operators: skipping, clearing and expiring the backlog of a subscription in one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.operators import Operators
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica

SKIPPED_MAX = 6
"""Maximum number of entries that an operator skips."""

EXPIRED_S = (1, 12)
"""Bounds of the age of expired entries, in seconds."""


class Operations(ActionGroup):
    """See the module."""

    name = "operators"
    share = 0.8

    def __init__(self, simulation: Simulation) -> None:
        """Create the operators of ``simulation``."""
        super().__init__(simulation)
        self._operators = Operators(simulation.checks)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("operator skips", 1, lambda: self._on_some(self._skip)),
            Action("operator clears the backlog", 1, lambda: self._on_some(self._operators.clear)),
            Action("operator expires", 1, lambda: self._on_some(self._expire)),
        )

    def _skip(self, replica: Replica, subscription: str) -> None:
        self._operators.skip(replica, subscription, self.chance.randint(1, SKIPPED_MAX))

    def _expire(self, replica: Replica, subscription: str) -> None:
        self._operators.expire(replica, subscription, self.chance.randint(*EXPIRED_S))

    def _on_some(self, work: Callable[[Replica, str], None]) -> bool:
        """Call ``work`` with a random subscription in a random cluster, if there is one."""
        found = [
            (replica, subscription.name)
            for replica in self.simulation.loaded()
            for subscription in (replica.topic.subscriptions.values() if replica.topic else ())
            if subscription.is_durable
        ]
        if found:
            work(*self.chance.choice(found))
        return bool(found)
