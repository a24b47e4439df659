"""The effective policies of a topic: its own, otherwise its namespace's, otherwise the broker's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from magnetar.metadata.policies import Policies
from magnetar.metadata.policy.table import Policy
from magnetar.schema.strategy import SchemaCompatibilityStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.metadata.policies import TopicPolicies
    from magnetar.metadata.policy.description import ReplicatedSubscriptionSync
    from magnetar.metadata.policy.values import (
        AutoSubscriptionCreation,
        AutoTopicCreation,
        BacklogQuota,
        BacklogQuotaType,
        DelayedDeliveryPolicies,
        DispatchRate,
        InactiveTopicPolicies,
        PublishRate,
        RetentionPolicies,
        SubscribeRate,
        SubscriptionType,
    )


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
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
    custody: Mapping[str, str]
    """The cluster that carries the entries of a cluster that has left the namespace, by the name of the latter."""
    schema_compatibility_strategy: SchemaCompatibilityStrategy
    """Compatibility strategy for new schemas; never UNDEFINED."""
    schema_validation_enforced: bool
    """Whether a topic with a schema refuses producers without one."""
    schema_auto_update: bool
    """Whether producers and consumers may register new schemas."""
    max_producers: int
    """Maximum number of producers of a topic, waiting ones included, without links; 0: no limit."""
    max_consumers: int
    """Maximum number of consumers of a topic, over all subscriptions; 0: no limit."""
    max_consumers_per_subscription: int
    """Maximum number of consumers of a subscription; 0: no limit."""
    max_subscriptions: int
    """Maximum number of subscriptions of a topic; 0: no limit."""
    max_unacked_per_consumer: int
    """Maximum number of unacknowledged messages of a Shared or Key_Shared consumer; 0: no limit."""
    max_unacked_per_subscription: int
    """The same limit for all consumers of the subscription; 0: no limit."""
    publish_rate: PublishRate
    dispatch_rate: DispatchRate
    """Rate of all subscriptions of a topic together."""
    subscription_dispatch_rate: DispatchRate
    """Rate of each subscription."""
    dispatch_rates_by_subscription: Mapping[str, DispatchRate]
    """Rates of subscriptions that have their own, by name."""
    replicator_dispatch_rate: DispatchRate
    """Rate of each link to another cluster. A message is an entry here."""
    subscribe_rate: SubscribeRate
    max_topics: int
    """Maximum number of topics of a namespace, with partitions; links are exempt. 0: no limit."""
    max_message_size: int
    """Maximum size of an entry of a client that is no chunk, in bytes; links are exempt. 0: that of the broker."""
    auto_topic_creation: AutoTopicCreation
    auto_subscription_creation: AutoSubscriptionCreation
    subscription_types: Sequence[SubscriptionType]
    """Types of subscriptions that consumers may use."""
    encryption_required: bool
    """Whether producers must encrypt their messages."""
    subscription_expiration_minutes: int
    """Minutes without consumers after which a subscription that is not replicated is deleted; 0: never."""
    inactive_topics: InactiveTopicPolicies


LEVEL_FIELDS: dict[str, tuple[str | None, str | None]] = {
    policy.value.effective: (
        policy.namespace.field if policy.namespace is not None else None,
        policy.topic.field if policy.topic is not None else None,
    )
    for policy in Policy
    if policy.value.effective is not None
} | {"backlog_quotas": ("backlog_quota_map", "backLogQuotaMap")}
"""For each field of EffectivePolicies, the fields of Policies and of TopicPolicies that set it."""

_PER_CLUSTER = frozenset(policy.value.effective for policy in Policy if policy.value.is_per_cluster)
"""Fields with a value for each cluster in Policies."""


def effective(
    broker: EffectivePolicies, namespace: Policies | None, topic: TopicPolicies | None, *, cluster: str
) -> EffectivePolicies:
    """Merge the three levels in a cluster; a missing level sets nothing."""
    found = broker
    if namespace is not None:
        found = _over(found, {name: own_value(namespace, name, cluster) for name in LEVEL_FIELDS})
    if topic is not None:
        found = _over(found, {name: own_value(topic, name, cluster) for name in LEVEL_FIELDS})
    return replace(
        found,
        dispatch_rates_by_subscription={} if topic is None else _own_dispatch_rates(topic),
        # The broker can enforce validation and encryption, and forbid new schemas, in all topics.
        schema_validation_enforced=broker.schema_validation_enforced or found.schema_validation_enforced,
        encryption_required=broker.encryption_required or found.encryption_required,
        schema_auto_update=broker.schema_auto_update and (namespace is None or namespace.is_allow_auto_update_schema),
    )


def own_value(document: Policies | TopicPolicies, name: str, cluster: str) -> Any:  # noqa: ANN401 - of any policy
    """Return the value of a field of EffectivePolicies that ``document`` sets; None if it does not."""
    of_namespace, of_topic = LEVEL_FIELDS[name]
    is_namespace = isinstance(document, Policies)
    field = of_namespace if is_namespace else of_topic
    if field is None:
        return None
    value = getattr(document, field)
    return value.get(cluster) if is_namespace and name in _PER_CLUSTER else value


def _own_dispatch_rates(topic: TopicPolicies) -> dict[str, DispatchRate]:
    policies = topic.subscriptionPolicies.items()
    return {name: each.dispatchRate for name, each in policies if each.dispatchRate is not None}


_UNSET: tuple[object, ...] = (None, SchemaCompatibilityStrategy.UNDEFINED, [])


def _over(lower: EffectivePolicies, fields: Mapping[str, Any]) -> EffectivePolicies:
    """Override with the fields that are set; quotas are overridden by type."""
    given = {name: value for name, value in fields.items() if value not in _UNSET}
    if quotas := given.pop("backlog_quotas", None):
        given["backlog_quotas"] = {**lower.backlog_quotas, **quotas}
    return replace(lower, **given)
