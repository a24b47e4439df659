"""Pipelines: leases end; tasks are killed, hang, and lose rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

STALLED_S = (0.5, 4.0)
"""Duration for which a task hangs, in seconds."""


class Pipelines(ActionGroup):
    """See the module."""

    name = "pipelines"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("lease handed over", 4, self._hand_over, is_fault=True),
            Action("pipeline task killed", 1, self._kill, is_fault=True),
            Action("pipeline task stands still", 2, self._stall, is_fault=True),
            Action("pipeline task loses rows", 2, self._lose, is_fault=True),
        )

    def _hand_over(self) -> bool:
        pipeline = self.chance.choice(self.simulation.pipelines)
        self.simulation.note(pipeline.target, "the pipeline's next lease begins")
        pipeline.hand_over()
        if len(pipeline.leases) > 2:
            pipeline.end_oldest()
        return True

    def _kill(self) -> bool:
        pipeline = self.chance.choice(self.simulation.pipelines)
        self.simulation.note(pipeline.target, "the pipeline's task is killed, and retried")
        pipeline.retry()
        return True

    def _stall(self) -> bool:
        pipeline = self.chance.choice(self.simulation.pipelines)
        self.simulation.note(pipeline.target, "the pipeline's task stands still")
        pipeline.stall(self.chance.uniform(*STALLED_S))
        return True

    def _lose(self) -> bool:
        pipeline = self.chance.choice(self.simulation.pipelines)
        self.simulation.note(pipeline.target, "the pipeline's task loses some of what it reads next")
        pipeline.lose()
        return True
