"""Documents of the metadata store, with Pulsar's field names. Unknown fields are preserved."""

# ruff: noqa: N815 - the fields are named as in Pulsar's JSON

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from magnetar.schema.strategy import SchemaCompatibilityStrategy

DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES = 4
"""Bundles of a namespace without a number of its own (``defaultNumberOfNamespaceBundles``)."""

NAMESPACE_BUNDLES_MAX = 2**16
"""Maximum number of bundles. The boundaries of more would be longer than all other policies."""

BacklogQuotaType = Literal["destination_storage", "message_age"]
"""Types of backlog quotas: in bytes, or in seconds."""

ReplicatedSubscriptionSync = Literal["auto", "exact", "markers"]
"""Methods of replicating subscriptions: exact progress, PIP-33's snapshots, or the best one of each cluster."""

_HASH_SPACE = 2**32

Limit = Annotated[int, Field(ge=-1, lt=2**31)]
"""A limit; -1: no limit."""

Copies = Annotated[int, Field(ge=1, lt=2**31)]
"""A number of clusters."""

Milliseconds = Annotated[int, Field(ge=1, lt=2**31)]
"""A time between two events."""

_Int = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class Document(BaseModel):
    """A stored JSON object; null means absent in both directions, as in Pulsar."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:  # noqa: ANN401 - anything may come from outside
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Parse a document; raises pydantic's ValidationError for a wrong type."""
        return cls.model_validate_json(text)

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_bytes(self) -> bytes:
        """Return the stored form of the object."""
        return self.model_dump_json(exclude_none=True).encode()


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


class TenantInfo(Document):
    """Administrators of a tenant, and the clusters that its namespaces may use."""

    adminRoles: list[str] = []
    allowedClusters: list[str] = []


class RetentionPolicies(Document):
    """Retention of entries that every subscription has acknowledged; -1: no limit, 0 in both fields: no retention."""

    retentionTimeInMinutes: _Int = 0
    retentionSizeInMB: _Int = 0


class BacklogQuota(Document):
    """Maximum backlog of a topic, and the policy when it is exceeded.

    ``destination_storage`` limits bytes; ``message_age`` limits the seconds since this cluster stored the oldest
    unacknowledged message. A limit below 0 is no limit; for seconds, 0 is no limit either.
    """

    limit: int = 0
    """Former name of ``limitSize``."""
    limitSize: int = 0
    limitTime: int = 0
    policy: Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"]

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        self.limit = self.limitSize = self.limitSize or self.limit
        return self


class DelayedDeliveryPolicies(Document):
    """Whether ``deliver_at_time`` is honoured, the precision, and the maximum delay (0: no limit)."""

    tickTime: Annotated[int, Field(ge=0)] = 1000
    active: bool = True
    maxDeliveryDelayInMillis: Annotated[int, Field(ge=0)] = 0


class AuthPolicies(Document):
    """Permissions; always empty."""

    namespace_auth: dict[str, Any] = {}
    destination_auth: dict[str, Any] = {}
    subscription_auth_roles: dict[str, Any] = {}


class BundlesData(Document):
    """Division of a namespace's hash space; ``boundaries`` has one element more than there are bundles."""

    boundaries: list[str] = []
    numBundles: int = 0

    @classmethod
    def of(cls, count: int) -> Self:
        """Divide the space into ``count`` equal bundles, at least one."""
        bounds = [_HASH_SPACE // count * index for index in range(count)]
        return cls(boundaries=[f"0x{bound:08x}" for bound in [*bounds, _HASH_SPACE - 1]], numBundles=count)


class Policies(Document):
    """A namespace's policies, in Pulsar's order of fields."""

    auth_policies: AuthPolicies = Field(default_factory=AuthPolicies)
    replication_clusters: list[str] = []
    allowed_clusters: list[str] = []
    bundles: BundlesData = Field(default_factory=BundlesData)
    backlog_quota_map: dict[BacklogQuotaType, BacklogQuota] = {}
    clusterDispatchRate: dict[str, Any] = {}
    topicDispatchRate: dict[str, Any] = {}
    subscriptionDispatchRate: dict[str, Any] = {}
    replicatorDispatchRate: dict[str, Any] = {}
    clusterSubscribeRate: dict[str, Any] = {}
    deduplicationEnabled: bool | None = None
    deduplicationSnapshotIntervalSeconds: int | None = None
    publishMaxMessageRate: dict[str, Any] = {}
    latency_stats_sample_rate: dict[str, Any] = {}
    message_ttl_in_seconds: int | None = None
    retention_policies: RetentionPolicies | None = None
    deleted: bool = False
    encryption_required: bool = False
    delayed_delivery_policies: DelayedDeliveryPolicies | None = None
    subscription_auth_mode: str = "None"
    offload_threshold: int = -1
    offload_threshold_in_seconds: int = -1
    schema_compatibility_strategy: SchemaCompatibilityStrategy = SchemaCompatibilityStrategy.UNDEFINED
    is_allow_auto_update_schema: bool = True
    schema_validation_enforced: bool = False
    subscription_types_enabled: list[str] = []
    properties: dict[str, str] = {}
    migrated: bool = False
    dispatcherPauseOnAckStatePersistentEnabled: bool | None = None
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


class TopicPolicies(Document):
    """Policies of a topic, or of all partitions of a partitioned topic. They take precedence over the namespace's."""

    backLogQuotaMap: dict[BacklogQuotaType, BacklogQuota] = {}
    retentionPolicies: RetentionPolicies | None = None
    deduplicationEnabled: bool | None = None
    deduplicationSnapshotIntervalSeconds: int | None = None
    messageTTLInSeconds: int | None = None
    delayedDeliveryPolicies: DelayedDeliveryPolicies | None = None
    schemaCompatibilityStrategy: SchemaCompatibilityStrategy | None = None
    schemaValidationEnforced: bool | None = None
    dispatcherPauseOnAckStatePersistentEnabled: bool | None = None
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
