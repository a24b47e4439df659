"""Retention: no entry is trimmed that the policy keeps. Which entries are old is not asked of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.sim.referees.times import DRIFTED_S
from magnetar.sim.world import Invariant

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.sim.site import Replica
    from magnetar.sim.world import World


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a topic was at the last check."""

    topic: Topic
    policies: EffectivePolicies
    first: Position


class Retention(Invariant):
    """See the module."""

    counted = ("entries kept by retention",)

    def __init__(self, world: World) -> None:
        """Watch ``world``."""
        super().__init__(world)
        self._seen: dict[Replica, _Seen] = {}

    def check(self) -> None:
        """See Invariant: compare with the last check, if the policies stayed the same."""
        for replica in self.world.loaded():
            assert replica.topic is not None
            now = _Seen(replica.topic, replica.topic.policies, replica.topic.ledger.first_position)
            before = self._seen.get(replica)
            self._seen[replica] = now
            if before is None or before.topic is not now.topic or before.policies is not now.policies:
                continue
            self.world.count("entries kept by retention", now.policies.retention.retentionTimeInMinutes != 0)
            if before.first < now.first:
                self._check_trimmed(replica, before.first, now)

    def _check_trimmed(self, replica: Replica, first: Position, now: _Seen) -> None:
        retention, log = now.policies.retention, self.world.referee.topics[replica.name].model.logs[replica.cluster]
        keeps_all = retention.retentionTimeInMinutes < 0
        mib, seconds = retention.retentionSizeInMB, retention.retentionTimeInMinutes * 60
        if 0 <= mib << 20 <= sum(log.sizes):
            return  # its size may have been too much
        at = replica.site.clock.monotonic()
        old = set() if keeps_all else set(log.ages.old(max(seconds - DRIFTED_S, 0.0), at, replica.site.seem_older))
        gone = [entry.text for position, entry in log.entries if first <= position < now.first and position not in old]
        if gone:
            self.world.referee.violate(
                f"E: {replica.name.local_name} in {replica.cluster} trimmed {gone[:5]}, which retention keeps for "
                f"{retention.retentionTimeInMinutes} minutes"
            )
