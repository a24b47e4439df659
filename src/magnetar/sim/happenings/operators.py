"""Operators: they skip, clear and expire what a subscription has not acknowledged, in one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.operators import Operators
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.site import Replica
    from magnetar.sim.world import World

SKIPPED_MAX = 6
"""How many entries an operator skips at most."""

EXPIRED_S = (1, 12)
"""How old entries are that an operator expires."""


class Operations(Happening):
    """See the module."""

    name = "operators"
    share = 0.8

    def __init__(self, world: World) -> None:
        """Happen in ``world``."""
        super().__init__(world)
        self._operators = Operators(world.referee)

    def actions(self) -> Iterable[Action]:
        """See Happening."""
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
        """Do ``work`` to some subscription in some cluster, if there is any."""
        found = [
            (replica, subscription.name)
            for replica in self.world.loaded()
            for subscription in (replica.topic.subscriptions.values() if replica.topic else ())
            if subscription.is_durable
        ]
        if found:
            work(*self.chance.choice(found))
        return bool(found)
