"""Documents of the metadata store, with Pulsar's field names. Unknown fields are preserved."""

# ruff: noqa: N815, RUF012 - the fields are named as in Pulsar's JSON, and pydantic copies the defaults

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator

from magnetar.metadata.policy.description import Copies, Custody, Limit, Milliseconds, ReplicatedSubscriptionSync
from magnetar.metadata.policy.document import Document, Int, Long
from magnetar.metadata.policy.values import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    BacklogQuota,
    BacklogQuotaType,
    BookieAffinityGroup,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    OffloadPolicies,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
    SubscriptionPolicies,
    SubscriptionType,
)
from magnetar.schema.strategy import SchemaCompatibilityStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES = 4
"""Bundles of a namespace without a number of its own (``defaultNumberOfNamespaceBundles``)."""

NAMESPACE_BUNDLES_MAX = 2**16
"""Maximum number of bundles. The boundaries of more would be longer than all other policies."""

HASH_MAX = 2**32 - 1
"""Maximum hash of a topic."""


class ClusterData(Document):
    """Addresses of a cluster."""

    serviceUrl: str | None = None
    serviceUrlTls: str | None = None
    brokerServiceUrl: str | None = None
    brokerServiceUrlTls: str | None = None
    peerClusterNames: list[str] | None = None
    brokerClientTlsEnabled: bool = False
    tlsAllowInsecureConnection: bool = False
    brokerClientTlsEnabledWithKeyStore: bool = False
    brokerClientTrustCertsFilePath: str | None = None
    brokerClientCertificateFilePath: str | None = None
    brokerClientKeyFilePath: str | None = None


def is_reserved_property(key: str) -> bool:
    """Return whether a broker stores a property of a topic for itself; Apache Pulsar returns these to clients."""
    return key.startswith(("magnetar.", "pulsar.topic."))


def own_properties(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that clients have set for a topic, which are stored with those of the broker."""
    return {key: value for key, value in stored.items() if not is_reserved_property(key)}


class Addresses(NamedTuple):
    """The URLs of a broker; those of ports that are closed are None."""

    internal: ClusterData
    """For clients without a listener, other clusters and tools."""
    listeners: Mapping[str, ClusterData] = MappingProxyType({})
    """For clients of each named listener."""

    def of(self, listener: str) -> ClusterData | None:
        """Return those of a listener, empty: the internal ones; None if there is none of this name."""
        return self.listeners.get(listener) if listener else self.internal


class TenantInfo(Document):
    """Administrators of a tenant, and the clusters that its namespaces may use."""

    adminRoles: list[str] = []
    allowedClusters: list[str] = []

    @field_validator("allowedClusters")
    @classmethod
    def _is_a_set(cls, names: list[str]) -> list[str]:
        """Sort the names, which are a set in Pulsar, so that clusters with the same ones have the same document."""
        return sorted(set(names))


AuthAction = Literal["produce", "consume", "functions", "sources", "sinks", "packages"]
"""Actions that a role may be permitted."""


class AuthPolicies(Document):
    """Permissions by role; those of topics and subscriptions by name."""

    namespace_auth: dict[str, list[AuthAction]] = {}
    destination_auth: dict[str, dict[str, list[AuthAction]]] = {}
    subscription_auth_roles: dict[str, list[str]] = {}


class BundlesData(Document):
    """Division of a namespace's hash space; ``boundaries`` has one element more than there are bundles."""

    boundaries: list[str] = []
    numBundles: int = 0

    @classmethod
    def of(cls, count: int) -> Self:
        """Divide the space into ``count`` equal bundles, at least one."""
        return cls.between([*((HASH_MAX + 1) // count * index for index in range(count)), HASH_MAX])

    @classmethod
    def between(cls, bounds: Sequence[int]) -> Self:
        """Divide the space at ``bounds``, which ascend from 0 to HASH_MAX."""
        return cls(boundaries=[f"0x{bound:08x}" for bound in bounds], numBundles=len(bounds) - 1)


class Policies(Document):
    """A namespace's policies, in Pulsar's order of fields."""

    auth_policies: AuthPolicies = Field(default_factory=AuthPolicies)
    replication_clusters: list[str] = []
    allowed_clusters: list[str] = []
    bundles: BundlesData = Field(default_factory=BundlesData)
    backlog_quota_map: dict[BacklogQuotaType, BacklogQuota] = {}
    clusterDispatchRate: dict[str, Any] = {}
    topicDispatchRate: dict[str, DispatchRate] = {}
    subscriptionDispatchRate: dict[str, DispatchRate] = {}
    replicatorDispatchRate: dict[str, DispatchRate] = {}
    clusterSubscribeRate: dict[str, SubscribeRate] = {}
    persistence: PersistencePolicies | None = None
    deduplicationEnabled: bool | None = None
    autoTopicCreationOverride: AutoTopicCreation | None = None
    autoSubscriptionCreationOverride: AutoSubscriptionCreation | None = None
    deduplicationSnapshotIntervalSeconds: int | None = None
    publishMaxMessageRate: dict[str, PublishRate] = {}
    latency_stats_sample_rate: dict[str, Any] = {}
    message_ttl_in_seconds: int | None = None
    subscription_expiration_time_minutes: Int | None = None
    retention_policies: RetentionPolicies | None = None
    deleted: bool = False
    encryption_required: bool = False
    delayed_delivery_policies: DelayedDeliveryPolicies | None = None
    inactive_topic_policies: InactiveTopicPolicies | None = None
    subscription_auth_mode: Literal["None", "Prefix"] = "None"
    max_producers_per_topic: Int | None = None
    max_consumers_per_topic: Int | None = None
    max_consumers_per_subscription: Int | None = None
    max_unacked_messages_per_consumer: Int | None = None
    max_unacked_messages_per_subscription: Int | None = None
    max_subscriptions_per_topic: Int | None = None
    compaction_threshold: Long | None = None
    offload_threshold: Long = -1
    offload_threshold_in_seconds: Long = -1
    offload_deletion_lag_ms: Long | None = None
    max_topics_per_namespace: Int | None = None
    schema_auto_update_compatibility_strategy: str | None = None
    schema_compatibility_strategy: SchemaCompatibilityStrategy = SchemaCompatibilityStrategy.UNDEFINED
    is_allow_auto_update_schema: bool = True
    schema_validation_enforced: bool = False
    offload_policies: OffloadPolicies | None = None
    subscription_types_enabled: list[SubscriptionType] = []
    properties: dict[str, str] = {}
    resource_group_name: str | None = None
    migrated: bool = False
    dispatcherPauseOnAckStatePersistentEnabled: bool | None = None
    entryFilters: EntryFilters | None = None
    replicate_subscription_state: bool | None = None
    """From PIP-398."""
    replicated_subscriptions_allowed: bool | None = None
    """Magnetar's own, like the fields below: limits of the messages that are in too few other clusters."""
    max_at_risk_messages: Limit | None = None
    max_at_risk_seconds: Limit | None = None
    at_risk_copies: Copies | None = None
    at_risk_absence_seconds: Limit | None = None
    replicated_subscription_sync: ReplicatedSubscriptionSync | None = None
    replicated_subscriptions_snapshot_frequency_millis: Milliseconds | None = None
    replicated_subscription_active_cluster: str | None = None
    custody: Custody | None = None


class LocalPolicies(Document):
    """Policies of a namespace for the placement of its topics and ledgers, which Pulsar stores apart from the others.

    They have no effect.
    """

    namespaceAntiAffinityGroup: str | None = None
    bookieAffinityGroup: BookieAffinityGroup | None = None


class TopicPolicies(Document):
    """Policies of a topic, or of all partitions of a partitioned topic. They take precedence over the namespace's."""

    backLogQuotaMap: dict[BacklogQuotaType, BacklogQuota] = {}
    subscriptionTypesEnabled: list[SubscriptionType] = []
    replicationClusters: list[str] = []
    persistence: PersistencePolicies | None = None
    retentionPolicies: RetentionPolicies | None = None
    deduplicationEnabled: bool | None = None
    messageTTLInSeconds: int | None = None
    maxProducerPerTopic: Int | None = None
    maxConsumerPerTopic: Int | None = None
    maxConsumersPerSubscription: Int | None = None
    maxUnackedMessagesOnConsumer: Int | None = None
    maxUnackedMessagesOnSubscription: Int | None = None
    delayedDeliveryPolicies: DelayedDeliveryPolicies | None = None
    dispatcherPauseOnAckStatePersistentEnabled: bool | None = None
    offloadPolicies: OffloadPolicies | None = None
    inactiveTopicPolicies: InactiveTopicPolicies | None = None
    dispatchRate: DispatchRate | None = None
    subscriptionDispatchRate: DispatchRate | None = None
    compactionThreshold: Long | None = None
    publishRate: PublishRate | None = None
    subscribeRate: SubscribeRate | None = None
    deduplicationSnapshotIntervalSeconds: int | None = None
    maxMessageSize: Int | None = None
    maxSubscriptionsPerTopic: Int | None = None
    replicatorDispatchRate: DispatchRate | None = None
    schemaCompatibilityStrategy: SchemaCompatibilityStrategy | None = None
    entryFilters: EntryFilters | None = None
    autoSubscriptionCreationOverride: AutoSubscriptionCreation | None = None
    subscriptionPolicies: dict[str, SubscriptionPolicies] = {}
    schemaValidationEnforced: bool | None = None
    replicateSubscriptionState: bool | None = None
    """From PIP-398."""
    replicatedSubscriptionsAllowed: bool | None = None
    """Magnetar's own, like the fields below."""
    maxAtRiskMessages: Limit | None = None
    maxAtRiskSeconds: Limit | None = None
    atRiskCopies: Copies | None = None
    atRiskAbsenceSeconds: Limit | None = None
    replicatedSubscriptionSync: ReplicatedSubscriptionSync | None = None
    replicatedSubscriptionsSnapshotFrequencyMillis: Milliseconds | None = None
    replicatedSubscriptionActiveCluster: str | None = None


class PartitionedTopicMetadata(Document):
    """Metadata of a partitioned topic; ``partitions`` is at least 1."""

    partitions: int
    deleted: bool = False
    properties: dict[str, str] | None = None
