"""Protection of a topic's subscriptions: collects the state that ``geo.protection`` judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.admin.models.model import iso_time
from magnetar.admin.models.protection import ClusterProtection, SubscriptionProtection
from magnetar.broker.replication.interfaces import AllowedTopic
from magnetar.broker.replication.snapshots import marker_peers
from magnetar.geo.protection import DataFacts, Facts, Judgement, PeerFacts, ProgressFacts, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.replication.progress.topic_progress import TopicProgress
    from magnetar.broker.subscription.subscription import Subscription

_NOBODY_ASKED = "it is not replicated: neither a client nor a policy requests it"
_SWITCHED_OFF = "an administrator disabled its replication in this cluster"
_ALONE = "its namespace has no other cluster"


class ProtectedTopic(AllowedTopic, Protocol):
    """The topic of the subscriptions."""

    @property
    def loaded_at(self) -> float:
        """Time at which the topic was loaded, in seconds since the epoch."""
        ...

    @property
    def replicators(self) -> Mapping[str, Replicator]:
        """The links, by target cluster."""
        ...

    @property
    def progress(self) -> TopicProgress:
        """Exact progress of the topic."""
        ...


def note_protection(topic: ProtectedTopic, subscriptions: Iterable[Subscription]) -> None:
    """Update the records of unprotected subscriptions after a change of their replication."""
    forbidden = topic.replication_forbidden
    alone = "" if topic.environment.targets_of_topic(topic.name) else _ALONE
    for subscription in subscriptions:
        if subscription.is_durable:
            unasked = _SWITCHED_OFF if subscription.name in topic.progress.switched_off else _NOBODY_ASKED
            subscription.protection.note(forbidden or alone or ("" if subscription.is_replicated else unasked))


def protection_of(topic: ProtectedTopic) -> dict[str, Judgement]:
    """Return the protection of each durable subscription, by name."""
    environment = topic.environment
    now, tolerance_s = environment.clock.now(), environment.config.replicatedSubscriptionAtRiskAfterMs / 1000
    data = {target: _data_facts(replicator, now) for target, replicator in sorted(topic.replicators.items())}
    by_markers = marker_peers(topic)
    return {
        name: judge(_facts(topic, subscription, data, by_markers), now, tolerance_s)
        for name, subscription in sorted(topic.subscriptions.items())
        if subscription.is_durable
    }


def _data_facts(replicator: Replicator, now: float) -> DataFacts:
    entries = replicator.lag.unconfirmed
    oldest_age_s = replicator.lag.oldest_age_s() if entries else None
    return DataFacts(
        uncarried_since=replicator.lag.uncarried_since,
        unknown_since=replicator.target_position.unknown_since,
        entries=entries,
        oldest_appended_at=None if oldest_age_s is None else now - oldest_age_s,
        is_oldest_exact=replicator.lag.is_oldest_age_exact,
        in_custody=replicator.foreign.custody.backlog,
        steady_since=replicator.lag.steady_since,
    )


def _facts(
    topic: ProtectedTopic, subscription: Subscription, data: dict[str, DataFacts], by_markers: list[str]
) -> Facts:
    record, keeper = subscription.protection, subscription.shared_progress
    progress = topic.progress.facts(keeper) if keeper is not None else {}
    for peer in by_markers:
        progress[peer] = ProgressFacts(by_markers=True, unconfirmed=None, steady_since=topic.loaded_at, is_first=True)
    lost, state = topic.progress.lost, subscription.cursor.state
    peers = {
        peer: PeerFacts(
            progress=progress[peer],
            data=data[peer],
            lost=lost.last_known(peer, state),  # may begin the search
            is_searching=lost.is_searching(peer),
            is_damaged=lost.is_any_damaged(peer, state),
        )
        for peer in progress
        if peer in data
    }
    return Facts(
        unprotected_because=record.because or ("" if peers else _ALONE),
        unprotected_since=record.since,
        unprotected_at_least=record.at_least,
        observed_since=topic.loaded_at,
        peers=peers,
    )


def subscription_protection(topic: ProtectedTopic) -> dict[str, SubscriptionProtection]:
    """Return the protection in the models of the admin API, with its reasons."""
    judged = protection_of(topic)
    return {name: _model(topic, name, each) for name, each in judged.items()}


def _model(topic: ProtectedTopic, name: str, judged: Judgement) -> SubscriptionProtection:
    subscription = topic.subscriptions[name]
    keeper = subscription.shared_progress
    unconfirmed = topic.progress.unconfirmed(keeper) if keeper is not None else {}
    clusters = {}
    for cluster, each in judged.peers.items():
        lacking = unconfirmed.get(cluster)
        clusters[cluster] = ClusterProtection(
            status=each.status.value,
            since=iso_time(each.since * 1000),
            since_at_least=each.at_least,
            reasons=list(each.reasons),
            unconfirmed_acknowledgements=lacking.entries if lacking is not None else None,
            unreplicated_messages=topic.replicators[cluster].backlog if cluster in topic.replicators else None,
            lost_messages=topic.progress.lost.unacknowledged(cluster, subscription.cursor.state),
        )
    return SubscriptionProtection(
        status=judged.status.value,
        since=iso_time(judged.since * 1000),
        since_at_least=judged.at_least,
        reasons=list(judged.reasons),
        clusters=clusters,
    )
