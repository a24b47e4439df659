"""Retention: entries within the retention policy are not trimmed. The ages come from the model, not from the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.sim.checks.times import DRIFTED_S
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of a topic at the last check."""

    topic: Topic
    policies: EffectivePolicies
    first: Position


class Retention(Invariant):
    """See the module."""

    counted = ("entries kept by retention",)

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._seen: dict[Replica, _Seen] = {}

    def check(self) -> None:
        """See Invariant. Compares with the last check, if the retention policy stayed the same."""
        for replica in self.simulation.loaded():
            assert replica.topic is not None
            now = _Seen(replica.topic, replica.topic.policies, replica.topic.ledger.first_position)
            before = self._seen.get(replica)
            self._seen[replica] = now
            if before is None or before.topic is not now.topic or before.policies.retention != now.policies.retention:
                continue
            self.simulation.count("entries kept by retention", now.policies.retention.retentionTimeInMinutes != 0)
            if before.first < now.first:
                self._check_trimmed(replica, before.first, now)

    def _check_trimmed(self, replica: Replica, first: Position, now: _Seen) -> None:
        retention, log = now.policies.retention, self.simulation.checks.topics[replica.name].model.logs[replica.cluster]
        keeps_all = retention.retentionTimeInMinutes < 0
        mib, seconds = retention.retentionSizeInMB, retention.retentionTimeInMinutes * 60
        if 0 <= mib << 20 <= sum(log.sizes):
            return  # the log may have exceeded the retention size
        at = replica.site.clock.monotonic()
        old = set() if keeps_all else set(log.ages.old(max(seconds - DRIFTED_S, 0.0), at, replica.site.seem_older))
        gone = [entry.text for position, entry in log.entries if first <= position < now.first and position not in old]
        if gone:
            self.simulation.checks.violate(
                f"E: {replica.name.local_name} in {replica.cluster} trimmed {gone[:5]}, which retention keeps for "
                f"{retention.retentionTimeInMinutes} minutes"
            )
