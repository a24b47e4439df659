"""The effective policies of a topic: its own, otherwise its namespace's, otherwise the broker's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from magnetar.schema.strategy import SchemaCompatibilityStrategy

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
    """The effective policies of a topic; the broker's policies are the lowest level."""

    retention: RetentionPolicies
    message_ttl_s: int
    """Seconds after which a message is acknowledged for every subscription; 0: never."""
    backlog_quotas: Mapping[BacklogQuotaType, BacklogQuota]
    deduplication_enabled: bool
    """Whether a repeated message of a producer is stored once (PIP-6)."""
    deduplication_snapshot_interval_s: int
    """Maximum age of a snapshot in seconds; 0: snapshots depend on the number of entries only."""
    delayed_delivery: DelayedDeliveryPolicies
    pause_on_ack_state: bool
    """``dispatcherPauseOnAckStatePersistentEnabled`` (PIP-299)."""
    replicate_subscription_state: bool
    """Whether every durable subscription is replicated, even if its clients do not ask for it (PIP-398)."""
    replicated_subscriptions_allowed: bool
    """Whether subscriptions may be replicated."""
    max_at_risk_messages: int
    """Maximum number of receipted messages that are in too few other clusters; -1: no limit."""
    max_at_risk_seconds: int
    """Maximum time in seconds since the receipts of such messages; -1: no limit."""
    at_risk_copies: int
    """Number of other clusters that must store a message before it is safe, at least 1."""
    at_risk_absence_s: int
    """Seconds without a confirmation after which a cluster no longer counts; -1: never."""
    replicated_subscription_sync: ReplicatedSubscriptionSync
    """Method of replicating subscriptions.

    ``exact``: exact progress; ``markers``: the snapshots of PIP-33; ``auto``: the best method that each cluster
    supports.
    """
    replicated_subscriptions_snapshot_frequency_ms: int
    """Minimum time between two snapshots of PIP-33 of a topic, at least 1."""
    replicated_subscription_active_cluster: str
    """The only cluster in which a replicated subscription has consumers; empty: any cluster, and progress is merged."""
    schema_compatibility_strategy: SchemaCompatibilityStrategy
    """Compatibility strategy for new schemas; never UNDEFINED."""
    schema_validation_enforced: bool
    """Whether a topic with a schema refuses producers without one."""
    schema_auto_update: bool
    """Whether producers and consumers may register new schemas."""


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
    "schema_compatibility_strategy": ("schema_compatibility_strategy", "schemaCompatibilityStrategy"),
    "schema_validation_enforced": ("schema_validation_enforced", "schemaValidationEnforced"),
}
"""For each field of EffectivePolicies, the fields of Policies and of TopicPolicies that set it."""


def effective(broker: EffectivePolicies, namespace: Policies | None, topic: TopicPolicies | None) -> EffectivePolicies:
    """Merge the three levels; a missing level sets nothing."""
    found = broker
    for level, document in enumerate((namespace, topic)):
        if document is not None:
            found = _over(found, **{name: getattr(document, fields[level]) for name, fields in LEVEL_FIELDS.items()})
    return replace(
        found,
        # The broker can enforce validation, and forbid new schemas, in all topics.
        schema_validation_enforced=broker.schema_validation_enforced or found.schema_validation_enforced,
        schema_auto_update=broker.schema_auto_update and (namespace is None or namespace.is_allow_auto_update_schema),
    )


def _over(
    lower: EffectivePolicies,
    *,
    backlog_quotas: Mapping[BacklogQuotaType, BacklogQuota],
    **fields: Any,  # noqa: ANN401
) -> EffectivePolicies:
    """Override with the fields that are not None; quotas are overridden by type."""
    unset = (None, SchemaCompatibilityStrategy.UNDEFINED)
    given = {name: value for name, value in fields.items() if value not in unset}
    return replace(lower, backlog_quotas={**lower.backlog_quotas, **backlog_quotas}, **given)
