"""Bugs in replicated subscriptions of mode ``markers`` (PIP-33)."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import EARLIEST
from magnetar.broker.replication import snapshots as broker_snapshots
from magnetar.broker.replication.outbound.replicator import Replicator
from magnetar.broker.replication.snapshots import TopicSnapshots
from magnetar.broker.subscription.flushes import Flushes
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.snapshots.cache import Round, SnapshotBuilder
from magnetar.geo.snapshots.claims import UpdateClaims
from magnetar.geo.snapshots.controller import SnapshotController

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.position import Position
    from magnetar.geo.progress.state import SubscriptionProgress
    from tests.sim.mutants.base import Mutant


def everything_claimed(_: Any) -> Any:
    def mutant(state: SubscriptionProgress, reached: Mapping[str, Position]) -> UpdateClaims:
        whole = {cluster: IntervalSet.from_pairs([(EARLIEST, upper)]) for cluster, upper in reached.items()}
        return UpdateClaims(state.starts(), whole)

    return mutant


def gaps_claimed(original: Any) -> Any:
    def mutant(state: SubscriptionProgress, reached: Mapping[str, Position]) -> UpdateClaims:
        claims: UpdateClaims = original(state, reached)
        whole = {}
        for cluster, intervals in claims.acknowledged.items():
            bounds = [position for interval in intervals for position in interval]
            whole[cluster] = IntervalSet.from_pairs([(bounds[0], bounds[-1])])
        return UpdateClaims(claims.starts, whole)

    return mutant


def completed_by_the_first_answer(original: Any) -> Any:
    def mutant(self: SnapshotBuilder, cluster: str, position: Position) -> Round:
        found: Round = original(self, cluster, position)
        return Round.COMPLETE if found is not Round.COMPLETE else found

    return mutant


def update_before_it_is_durable(original: Any) -> Any:
    def mutant(self: Flushes) -> None:
        self._reached(self._subscription.cursor.state.mark_delete_position)
        original(self)

    return mutant


def updates_never_sent(_: Any) -> Any:
    return lambda _self, _subscription, _mark_delete: None


def return_forgotten(_: Any) -> Any:
    def mutant(self: SnapshotController, moved_at: float) -> bool:
        return self._completed_before is None or moved_at >= self._completed_before

    return mutant


def doubt_too_short(_: Any) -> Any:
    return property(lambda self: self.environment.config.replicatedSubscriptionsSnapshotTimeoutSeconds)


MUTANTS: dict[str, Mutant] = {
    "an update claims what lies before the start": (broker_snapshots, "claims_of", everything_claimed),
    "an update claims what its sender never held": (broker_snapshots, "claims_of", gaps_claimed),
    "a snapshot completed by the first answer": (SnapshotBuilder, "answered", completed_by_the_first_answer),
    "an update sent before it is durable": (Flushes, "now", update_before_it_is_durable),
    "updates never sent": (TopicSnapshots, "reached", updates_never_sent),
    "updates in doubt only for the timeout of a snapshot": (Replicator, "doubt_s", doubt_too_short),
    "no snapshot after a cluster that was left out is back": (SnapshotController, "_is_due", return_forgotten),
}
