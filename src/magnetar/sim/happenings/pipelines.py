"""Pipelines: leases are handed over; tasks are killed, stand still, and lose rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

STALLED_S = (0.5, 4.0)
"""How long a task stands still."""


class Pipelines(Happening):
    """See the module."""

    name = "pipelines"

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("lease handed over", 2, self._hand_over, is_fault=True),
            Action("pipeline task killed", 1, self._kill, is_fault=True),
            Action("pipeline task stands still", 2, self._stall, is_fault=True),
            Action("pipeline task loses rows", 2, self._lose, is_fault=True),
        )

    def _hand_over(self) -> bool:
        relay = self.chance.choice(self.world.relays)
        self.world.note(relay.target, "the pipeline's next lease begins")
        relay.hand_over()
        if len(relay.tasks) > 2:
            relay.end_oldest()
        return True

    def _kill(self) -> bool:
        relay = self.chance.choice(self.world.relays)
        self.world.note(relay.target, "the pipeline's task is killed, and retried")
        while relay.tasks:
            relay.end_oldest()
        relay.hand_over(again=True)
        return True

    def _stall(self) -> bool:
        relay = self.chance.choice(self.world.relays)
        self.world.note(relay.target, "the pipeline's task stands still")
        relay.stall(self.chance.uniform(*STALLED_S))
        return True

    def _lose(self) -> bool:
        relay = self.chance.choice(self.world.relays)
        self.world.note(relay.target, "the pipeline's task loses some of what it reads next")
        relay.lose()
        return True
