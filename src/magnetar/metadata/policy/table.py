"""The table of all policies that a namespace or a topic can set: paths, fields, types and conditions of each."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from magnetar.metadata.policy.description import (
    Copies,
    Custody,
    Description,
    Level,
    Limit,
    Milliseconds,
    ReplicatedSubscriptionSync,
    maximum,
    rate,
    same,
)
from magnetar.metadata.policy.document import Int, Long
from magnetar.metadata.policy.values import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    OffloadPolicies,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
    SubscriptionType,
)
from magnetar.schema.strategy import SchemaCompatibilityStrategy

_MESSAGE_SIZE = (
    "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the broker-level"
)


class Policy(Enum):
    """A policy of namespaces and topics. Backlog quotas, which have a type, are not among them."""

    RETENTION = same("retention", RetentionPolicies, "retention", "retention_policies", topic_field="retentionPolicies")
    MESSAGE_TTL = Description(
        effective="message_ttl_s",
        kind=Int,
        namespace=Level(
            path="messageTTL",
            field="message_ttl_in_seconds",
            refusal="Invalid value for message TTL, message TTL must >= 0",
        ),
        topic=Level(
            path="messageTTL",
            field="messageTTLInSeconds",
            refusal="Invalid value for message TTL, message TTL must >= 0",
        ),
    )
    DEDUPLICATION = Description(
        effective="deduplication_enabled",
        kind=bool,
        namespace=Level(path="deduplication", field="deduplicationEnabled"),
        topic=Level(path="deduplicationEnabled", field="deduplicationEnabled", is_nullable=True),
    )
    DEDUPLICATION_SNAPSHOT_INTERVAL = Description(
        effective="deduplication_snapshot_interval_s",
        kind=Int | None,
        namespace=Level(
            path="deduplicationSnapshotInterval",
            field="deduplicationSnapshotIntervalSeconds",
            refusal="interval must be greater than or equal to 0",
        ),
        topic=Level(
            path="deduplicationSnapshotInterval",
            field="deduplicationSnapshotIntervalSeconds",
            refusal="interval must be 0 or more",
        ),
    )
    DELAYED_DELIVERY = same(
        "delayed_delivery",
        DelayedDeliveryPolicies | None,
        "delayedDelivery",
        "delayed_delivery_policies",
        topic_field="delayedDeliveryPolicies",
    )
    PAUSE_ON_ACK_STATE = Description(
        effective="pause_on_ack_state",
        kind=bool,
        namespace=Level(
            path="dispatcherPauseOnAckStatePersistent",
            field="dispatcherPauseOnAckStatePersistentEnabled",
            unset=False,
        ),
        topic=Level(
            path="dispatcherPauseOnAckStatePersistent",
            field="dispatcherPauseOnAckStatePersistentEnabled",
            unset=False,
        ),
    )
    REPLICATE_SUBSCRIPTION_STATE = same(
        "replicate_subscription_state",
        bool | None,
        "replicateSubscriptionState",
        "replicate_subscription_state",
        topic_field="replicateSubscriptionState",
    )
    MAX_AT_RISK_MESSAGES = same(
        "max_at_risk_messages",
        Limit | None,
        "maxAtRiskMessages",
        "max_at_risk_messages",
        topic_field="maxAtRiskMessages",
    )
    MAX_AT_RISK_SECONDS = same(
        "max_at_risk_seconds", Limit | None, "maxAtRiskSeconds", "max_at_risk_seconds", topic_field="maxAtRiskSeconds"
    )
    AT_RISK_COPIES = same("at_risk_copies", Copies | None, "atRiskCopies", "at_risk_copies", topic_field="atRiskCopies")
    AT_RISK_ABSENCE_SECONDS = same(
        "at_risk_absence_s",
        Limit | None,
        "atRiskAbsenceSeconds",
        "at_risk_absence_seconds",
        topic_field="atRiskAbsenceSeconds",
    )
    REPLICATED_SUBSCRIPTIONS_ALLOWED = same(
        "replicated_subscriptions_allowed",
        bool | None,
        "replicatedSubscriptionsAllowed",
        "replicated_subscriptions_allowed",
        topic_field="replicatedSubscriptionsAllowed",
    )
    REPLICATED_SUBSCRIPTION_SYNC = same(
        "replicated_subscription_sync",
        ReplicatedSubscriptionSync,
        "replicatedSubscriptionSync",
        "replicated_subscription_sync",
        topic_field="replicatedSubscriptionSync",
    )
    REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY = same(
        "replicated_subscriptions_snapshot_frequency_ms",
        Milliseconds | None,
        "replicatedSubscriptionsSnapshotFrequencyMillis",
        "replicated_subscriptions_snapshot_frequency_millis",
        topic_field="replicatedSubscriptionsSnapshotFrequencyMillis",
    )
    REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER = same(
        "replicated_subscription_active_cluster",
        str,
        "replicatedSubscriptionActiveCluster",
        "replicated_subscription_active_cluster",
        topic_field="replicatedSubscriptionActiveCluster",
    )
    CUSTODY = Description(
        effective="custody",
        kind=Custody | None,
        namespace=Level(path="custody", field="custody"),
    )
    SCHEMA_COMPATIBILITY_STRATEGY = Description(
        effective="schema_compatibility_strategy",
        kind=SchemaCompatibilityStrategy,
        namespace=Level(path="schemaCompatibilityStrategy", field="schema_compatibility_strategy", method="PUT"),
        topic=Level(path="schemaCompatibilityStrategy", field="schemaCompatibilityStrategy", method="PUT"),
    )
    SCHEMA_VALIDATION_ENFORCED = Description(
        effective="schema_validation_enforced",
        kind=bool,
        namespace=Level(path="schemaValidationEnforced", field="schema_validation_enforced"),
        topic=Level(path="schemaValidationEnforced", field="schemaValidationEnforced", unset=False),
    )
    MAX_PRODUCERS = maximum(
        "max_producers", ("maxProducersPerTopic", "max_producers_per_topic"), ("maxProducers", "maxProducerPerTopic")
    )
    MAX_CONSUMERS = maximum(
        "max_consumers", ("maxConsumersPerTopic", "max_consumers_per_topic"), ("maxConsumers", "maxConsumerPerTopic")
    )
    MAX_CONSUMERS_PER_SUBSCRIPTION = maximum(
        "max_consumers_per_subscription",
        ("maxConsumersPerSubscription", "max_consumers_per_subscription"),
        ("maxConsumersPerSubscription", "maxConsumersPerSubscription"),
        "Invalid value for maxConsumersPerSubscription",
    )
    MAX_SUBSCRIPTIONS = maximum(
        "max_subscriptions",
        ("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
        ("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic"),
    )
    MAX_UNACKED_MESSAGES_PER_CONSUMER = maximum(
        "max_unacked_per_consumer",
        ("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
        ("maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnConsumer"),
        "maxUnackedNum must be 0 or more",
        is_nullable=True,
    )
    MAX_UNACKED_MESSAGES_PER_SUBSCRIPTION = maximum(
        "max_unacked_per_subscription",
        ("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
        ("maxUnackedMessagesOnSubscription", "maxUnackedMessagesOnSubscription"),
        "maxUnackedNum must be 0 or more",
        is_nullable=True,
    )
    PUBLISH_RATE = rate("publish_rate", PublishRate | None, "publishRate", "publishMaxMessageRate")
    DISPATCH_RATE = rate("dispatch_rate", DispatchRate | None, "dispatchRate", "topicDispatchRate")
    SUBSCRIPTION_DISPATCH_RATE = rate(
        "subscription_dispatch_rate", DispatchRate | None, "subscriptionDispatchRate", "subscriptionDispatchRate"
    )
    REPLICATOR_DISPATCH_RATE = rate(
        "replicator_dispatch_rate", DispatchRate | None, "replicatorDispatchRate", "replicatorDispatchRate"
    )
    SUBSCRIBE_RATE = rate("subscribe_rate", SubscribeRate | None, "subscribeRate", "clusterSubscribeRate")
    MAX_TOPICS = Description(
        effective="max_topics",
        kind=Int,
        namespace=Level(
            path="maxTopicsPerNamespace",
            field="max_topics_per_namespace",
            refusal="maxTopicsPerNamespace must be 0 or more",
            unset=0,
        ),
    )
    MAX_MESSAGE_SIZE = Description(
        effective="max_message_size",
        kind=Int,
        topic=Level(path="maxMessageSize", field="maxMessageSize", refusal=_MESSAGE_SIZE),
    )
    AUTO_TOPIC_CREATION = Description(
        effective="auto_topic_creation",
        kind=AutoTopicCreation | None,
        namespace=Level(path="autoTopicCreation", field="autoTopicCreationOverride"),
    )
    AUTO_SUBSCRIPTION_CREATION = same(
        "auto_subscription_creation",
        AutoSubscriptionCreation | None,
        "autoSubscriptionCreation",
        "autoSubscriptionCreationOverride",
    )
    SUBSCRIPTION_TYPES_ENABLED = Description(
        effective="subscription_types",
        kind=list[SubscriptionType],
        namespace=Level(path="subscriptionTypesEnabled", field="subscription_types_enabled"),
        topic=Level(path="subscriptionTypesEnabled", field="subscriptionTypesEnabled"),
    )
    ENCRYPTION_REQUIRED = Description(
        effective="encryption_required",
        kind=bool,
        namespace=Level(path="encryptionRequired", field="encryption_required"),
    )
    SUBSCRIPTION_EXPIRATION_TIME = Description(
        effective="subscription_expiration_minutes",
        kind=Int,
        namespace=Level(
            path="subscriptionExpirationTime",
            field="subscription_expiration_time_minutes",
            refusal="Invalid value for subscription expiration time",
        ),
    )
    INACTIVE_TOPICS = same(
        "inactive_topics",
        InactiveTopicPolicies | None,
        "inactiveTopicPolicies",
        "inactive_topic_policies",
        topic_field="inactiveTopicPolicies",
    )
    ENTRY_FILTERS = Description(
        kind=EntryFilters | None,
        namespace=Level(path="entryFilters", field="entryFilters"),
        topic=Level(path="entryFilters", field="entryFilters", applied=EntryFilters(entryFilterNames="")),
        about="Names of filters of entries. There are none, so every name is refused.",
    )
    COMPACTION_THRESHOLD = Description(
        kind=Long,
        namespace=Level(
            path="compactionThreshold",
            field="compaction_threshold",
            method="PUT",
            refusal="compactionThreshold must be 0 or more",
        ),
        topic=Level(
            path="compactionThreshold",
            field="compactionThreshold",
            refusal="Invalid value for compactionThreshold",
            applied=0,
        ),
        about="Backlog in bytes at which a topic is compacted.",
    )
    PERSISTENCE = Description(
        kind=PersistencePolicies,
        namespace=Level(path="persistence", field="persistence"),
        topic=Level(path="persistence", field="persistence", applied=PersistencePolicies()),
        about="Numbers of copies in Apache BookKeeper, and the maximum rate of acknowledgements.",
    )
    OFFLOAD_POLICIES = Description(
        kind=OffloadPolicies,
        namespace=Level(path="offloadPolicies", field="offload_policies", removal="removeOffloadPolicies"),
        topic=Level(path="offloadPolicies", field="offloadPolicies", applied=OffloadPolicies()),
        about="Storage for old ledgers.",
    )
    OFFLOAD_THRESHOLD = Description(
        kind=Long,
        namespace=Level(path="offloadThreshold", field="offload_threshold", method="PUT", unset=-1),
        about="Size in bytes above which old ledgers are offloaded; -1: never.",
    )
    OFFLOAD_THRESHOLD_IN_SECONDS = Description(
        kind=Long,
        namespace=Level(path="offloadThresholdInSeconds", field="offload_threshold_in_seconds", method="PUT", unset=-1),
        about="Age in seconds above which old ledgers are offloaded; -1: never.",
    )
    OFFLOAD_DELETION_LAG = Description(
        kind=Long,
        namespace=Level(path="offloadDeletionLagMs", field="offload_deletion_lag_ms", method="PUT"),
        about="Milliseconds after which the local copy of an offloaded ledger is deleted.",
    )
    SCHEMA_AUTO_UPDATE_COMPATIBILITY_STRATEGY = Description(
        kind=str | None,
        namespace=Level(
            path="schemaAutoUpdateCompatibilityStrategy",
            field="schema_auto_update_compatibility_strategy",
            method="PUT",
        ),
        about="Former name of `schemaCompatibilityStrategy`.",
    )
    SUBSCRIPTION_AUTH_MODE = Description(
        kind=Literal["None", "Prefix"] | None,
        namespace=Level(path="subscriptionAuthMode", field="subscription_auth_mode", unset="None"),
        is_of_authorization=True,
        about="Whether a role may only use subscriptions whose names begin with its own.",
    )

    @property
    def namespace(self) -> Level | None:
        """The policy of a namespace; None if there is none."""
        level: Level | None = self.value.namespace
        return level

    @property
    def topic(self) -> Level | None:
        """The policy of a topic; None if there is none."""
        level: Level | None = self.value.topic
        return level


OFFLOAD_FIELDS = {
    Policy.OFFLOAD_THRESHOLD: "managedLedgerOffloadThresholdInBytes",
    Policy.OFFLOAD_THRESHOLD_IN_SECONDS: "managedLedgerOffloadThresholdInSeconds",
    Policy.OFFLOAD_DELETION_LAG: "managedLedgerOffloadDeletionLagInMillis",
}
"""Policies of a namespace that are fields of its OffloadPolicies as well. Pulsar sets both."""
