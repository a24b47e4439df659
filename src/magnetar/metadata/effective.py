"""Which policies hold for a topic: its own, else its namespace's, else the broker's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.metadata.policies import (
        BacklogQuota,
        BacklogQuotaType,
        DelayedDeliveryPolicies,
        Policies,
        ReplicatedSubscriptionSync,
        RetentionPolicies,
        TopicPolicies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicies:
    """What a topic follows; the broker's own are the lowest level."""

    retention: RetentionPolicies
    message_ttl_s: int
    """Seconds after which a message is acknowledged for everybody; 0 is never."""
    backlog_quotas: Mapping[BacklogQuotaType, BacklogQuota]
    deduplication_enabled: bool
    """Whether what a producer sends again is stored once (PIP-6)."""
    deduplication_snapshot_interval_s: int
    """Seconds after which a snapshot is due, however few entries there were; 0 leaves it to their number."""
    delayed_delivery: DelayedDeliveryPolicies
    pause_on_ack_state: bool
    """``dispatcherPauseOnAckStatePersistentEnabled`` (PIP-299)."""
    replicate_subscription_state: bool
    """Whether every durable subscription is replicated, whatever its clients ask for (PIP-398)."""
    replicated_subscriptions_allowed: bool
    """Whether a subscription may be replicated at all, whoever asks for it."""
    max_at_risk_messages: int
    """How many messages may be promised and in too few other clusters; -1: any number."""
    max_at_risk_seconds: int
    """Within how many seconds those were promised; -1: any time."""
    at_risk_copies: int
    """How many other clusters make a message safe, at least 1."""
    at_risk_absence_s: int
    """Seconds after which a cluster that confirms nothing counts no more; -1: never."""
    replicated_subscription_sync: ReplicatedSubscriptionSync
    """How replicated subscriptions reach the other clusters.

    ``exact``: exact progress; ``markers``: the snapshots of PIP-33; ``auto``: what each cluster can take.
    """
    replicated_subscriptions_snapshot_frequency_ms: int
    """Shortest time between two snapshots of PIP-33 of a topic, at least 1."""
    replicated_subscription_active_cluster: str
    """The only cluster in which a replicated subscription has consumers; empty: any, and what they do is merged."""


LEVEL_FIELDS = {
    "retention": ("retention_policies", "retentionPolicies"),
    "message_ttl_s": ("message_ttl_in_seconds", "messageTTLInSeconds"),
    "backlog_quotas": ("backlog_quota_map", "backLogQuotaMap"),
    "deduplication_enabled": ("deduplicationEnabled", "deduplicationEnabled"),
    "deduplication_snapshot_interval_s": (
        "deduplicationSnapshotIntervalSeconds",
        "deduplicationSnapshotIntervalSeconds",
    ),
    "delayed_delivery": ("delayed_delivery_policies", "delayedDeliveryPolicies"),
    "pause_on_ack_state": (
        "dispatcherPauseOnAckStatePersistentEnabled",
        "dispatcherPauseOnAckStatePersistentEnabled",
    ),
    "replicate_subscription_state": ("replicate_subscription_state", "replicateSubscriptionState"),
    "max_at_risk_messages": ("max_at_risk_messages", "maxAtRiskMessages"),
    "max_at_risk_seconds": ("max_at_risk_seconds", "maxAtRiskSeconds"),
    "at_risk_copies": ("at_risk_copies", "atRiskCopies"),
    "at_risk_absence_s": ("at_risk_absence_seconds", "atRiskAbsenceSeconds"),
    "replicated_subscriptions_allowed": ("replicated_subscriptions_allowed", "replicatedSubscriptionsAllowed"),
    "replicated_subscription_sync": ("replicated_subscription_sync", "replicatedSubscriptionSync"),
    "replicated_subscriptions_snapshot_frequency_ms": (
        "replicated_subscriptions_snapshot_frequency_millis",
        "replicatedSubscriptionsSnapshotFrequencyMillis",
    ),
    "replicated_subscription_active_cluster": (
        "replicated_subscription_active_cluster",
        "replicatedSubscriptionActiveCluster",
    ),
}
"""For each field of EffectivePolicies the one of Policies and the one of TopicPolicies that sets it."""


def effective(broker: EffectivePolicies, namespace: Policies | None, topic: TopicPolicies | None) -> EffectivePolicies:
    """Lay the levels over each other; a level that is missing sets nothing."""
    found = broker
    for level, document in enumerate((namespace, topic)):
        if document is not None:
            found = _over(found, **{name: getattr(document, fields[level]) for name, fields in LEVEL_FIELDS.items()})
    return found


def _over(
    lower: EffectivePolicies,
    *,
    backlog_quotas: Mapping[BacklogQuotaType, BacklogQuota],
    **fields: Any,  # noqa: ANN401
) -> EffectivePolicies:
    """Set the fields that are not None; quotas are set type by type."""
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(lower, backlog_quotas={**lower.backlog_quotas, **backlog_quotas}, **given)
