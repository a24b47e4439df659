"""Mode ``markers``: counts of snapshots and updates. ``Updates`` checks the acknowledgements in updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.geo.snapshots.controller import SnapshotController
    from magnetar.sim.simulation import Simulation


class Markers(Invariant):
    """See the module."""

    counted = (
        "snapshot completed",
        "snapshot timed out",
        "update sent",
        "update applied",
        "subscription created by an update",
    )

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._known: dict[str, int] = {}
        self._controllers: dict[object, tuple[SnapshotController, int, int]] = {}
        """By cluster and topic, the newest controller and its counts."""

    def check(self) -> None:
        """See Invariant."""
        if self.simulation.scenario.markers is None:
            return
        for replica in self.simulation.loaded():
            snapshots = replica.topic.snapshots if replica.topic is not None else None
            if snapshots is not None:
                controller, key = snapshots.controller, (replica.cluster, replica.name)
                seen = self._controllers.get(key)
                completed, timed_out = seen[1:] if seen is not None and seen[0] is controller else (0, 0)
                counts = controller.counts
                self._controllers[key] = controller, counts.completed, counts.timed_out
                self.simulation.count("snapshot completed", counts.completed - completed)
                self.simulation.count("snapshot timed out", counts.timed_out - timed_out)
        found = [topic.updates for topic in self.simulation.checks.topics.values() if topic.updates is not None]
        self._count("update sent", sum(each.sent_count for each in found))
        self._count("update applied", sum(each.applied_count for each in found))
        self._count("subscription created by an update", sum(each.created_count for each in found))

    def _count(self, event: str, total: int) -> None:
        self.simulation.count(event, total - self._known.get(event, 0))
        self._known[event] = total
