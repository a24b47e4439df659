"""Worlds in mode ``markers``: counts of snapshots and updates. What they may acknowledge is checked by ``Updates``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Invariant

if TYPE_CHECKING:
    from magnetar.geo.snapshots.controller import SnapshotController
    from magnetar.sim.world import World


class Markers(Invariant):
    """See the module."""

    counted = (
        "snapshot completed",
        "snapshot timed out",
        "update sent",
        "update applied",
        "subscription created by an update",
    )

    def __init__(self, world: World) -> None:
        """Watch ``world``."""
        super().__init__(world)
        self._known: dict[str, int] = {}
        self._controllers: dict[object, tuple[SnapshotController, int, int]] = {}
        """By cluster and topic, the last one seen and its counts."""

    def check(self) -> None:
        """See Invariant."""
        if self.world.scenario.markers is None:
            return
        for replica in self.world.loaded():
            snapshots = replica.topic.snapshots if replica.topic is not None else None
            if snapshots is not None:
                controller, key = snapshots.controller, (replica.cluster, replica.name)
                seen = self._controllers.get(key)
                completed, timed_out = seen[1:] if seen is not None and seen[0] is controller else (0, 0)
                self._controllers[key] = controller, controller.completed, controller.timed_out
                self.world.count("snapshot completed", controller.completed - completed)
                self.world.count("snapshot timed out", controller.timed_out - timed_out)
        found = [topic.updates for topic in self.world.referee.topics.values() if topic.updates is not None]
        self._count("update sent", sum(each.sent_count for each in found))
        self._count("update applied", sum(each.applied_count for each in found))
        self._count("subscription created by an update", sum(each.created_count for each in found))

    def _count(self, event: str, total: int) -> None:
        self.world.count(event, total - self._known.get(event, 0))
        self._known[event] = total
