"""The broker's level of the policies that namespaces and topics may set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.metadata.effective import EffectivePolicies
from magnetar.metadata.policy.values import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDeliveryPolicies,
    DispatchRate,
    InactiveTopicPolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
)
from magnetar.schema.strategy import SchemaCompatibilityStrategy

if TYPE_CHECKING:
    from magnetar.broker.settings.config import BrokerConfig

_UNLIMITED = BacklogQuota(limitSize=-1, limitTime=-1, policy="producer_request_hold")


def broker_policies(config: BrokerConfig) -> EffectivePolicies:
    """Return the policies that apply if neither the namespace nor the topic sets them."""
    quota = _quota(config)
    return EffectivePolicies(
        retention=RetentionPolicies(
            retentionTimeInMinutes=config.defaultRetentionTimeInMinutes,
            retentionSizeInMB=config.defaultRetentionSizeInMB,
        ),
        message_ttl_s=config.ttlDurationDefaultInSeconds,
        backlog_quotas={"destination_storage": quota, "message_age": quota},
        deduplication_enabled=config.brokerDeduplicationEnabled,
        deduplication_snapshot_interval_s=config.brokerDeduplicationSnapshotIntervalSeconds,
        delayed_delivery=DelayedDeliveryPolicies(
            tickTime=config.delayedDeliveryTickTimeMillis,
            active=config.delayedDeliveryEnabled,
            maxDeliveryDelayInMillis=config.delayedDeliveryMaxDelayInMillis,
        ),
        pause_on_ack_state=config.dispatcherPauseOnAckStatePersistentEnabled,
        replicate_subscription_state=config.replicateSubscriptionState,
        max_at_risk_messages=config.maxAtRiskMessages,
        max_at_risk_seconds=config.maxAtRiskSeconds,
        at_risk_copies=config.atRiskCopies,
        at_risk_absence_s=config.atRiskAbsenceSeconds,
        replicated_subscriptions_allowed=config.enableReplicatedSubscriptions,
        replicated_subscription_sync=config.replicatedSubscriptionSync,
        replicated_subscriptions_snapshot_frequency_ms=config.replicatedSubscriptionsSnapshotFrequencyMillis,
        replicated_subscription_active_cluster="",
        custody={},
        schema_compatibility_strategy=SchemaCompatibilityStrategy(config.schemaCompatibilityStrategy),
        schema_validation_enforced=config.isSchemaValidationEnforced,
        schema_auto_update=config.isAllowAutoUpdateSchemaEnabled,
        max_producers=config.maxProducersPerTopic,
        max_consumers=config.maxConsumersPerTopic,
        max_consumers_per_subscription=config.maxConsumersPerSubscription,
        max_subscriptions=config.maxSubscriptionsPerTopic,
        max_unacked_per_consumer=config.maxUnackedMessagesPerConsumer,
        max_unacked_per_subscription=config.maxUnackedMessagesPerSubscription,
        publish_rate=_publish_rate(config),
        dispatch_rate=_dispatch_rate(
            config, config.dispatchThrottlingRatePerTopicInMsg, config.dispatchThrottlingRatePerTopicInByte
        ),
        subscription_dispatch_rate=_dispatch_rate(
            config,
            config.dispatchThrottlingRatePerSubscriptionInMsg,
            config.dispatchThrottlingRatePerSubscriptionInByte,
        ),
        dispatch_rates_by_subscription={},
        replicator_dispatch_rate=_dispatch_rate(
            config, config.dispatchThrottlingRatePerReplicatorInMsg, config.dispatchThrottlingRatePerReplicatorInByte
        ),
        max_topics=config.maxTopicsPerNamespace,
        max_message_size=config.maxMessageSize,
        auto_topic_creation=_auto_topic_creation(config),
        auto_subscription_creation=AutoSubscriptionCreation(
            allowAutoSubscriptionCreation=config.allowAutoSubscriptionCreation
        ),
        subscription_types=config.enabled_subscription_types,
        encryption_required=config.encryptionRequireOnProducer,
        subscription_expiration_minutes=config.subscriptionExpirationTimeMinutes,
        inactive_topics=_inactive_topics(config),
        subscribe_rate=_subscribe_rate(config),
    )


def event_topic_policies(policies: EffectivePolicies, config: BrokerConfig) -> EffectivePolicies:
    """Return the policies of the event topic of the metadata synchronizer; ``policies`` are those of other topics.

    No event expires, no limit stops the synchronizer, and its subscription is never replicated: otherwise clusters
    would acknowledge each other's events. An event that is published twice is harmless, but one whose sequence id was
    used before a restart must not be taken for a duplicate.
    """
    return replace(
        policies,
        message_ttl_s=0,
        backlog_quotas={"destination_storage": _UNLIMITED, "message_age": _UNLIMITED},
        deduplication_enabled=False,
        replicate_subscription_state=False,
        replicated_subscriptions_allowed=False,
        max_at_risk_messages=-1,
        max_at_risk_seconds=-1,
        schema_validation_enforced=False,
        max_producers=0,
        max_consumers=0,
        max_consumers_per_subscription=0,
        max_subscriptions=0,
        publish_rate=PublishRate(),
        dispatch_rate=DispatchRate(),
        subscription_dispatch_rate=DispatchRate(),
        dispatch_rates_by_subscription={},
        replicator_dispatch_rate=DispatchRate(),
        subscribe_rate=SubscribeRate(),
        max_topics=0,
        max_message_size=config.maxMessageSize,
        auto_topic_creation=AutoTopicCreation(allowAutoTopicCreation=True, topicType="non-partitioned"),
        auto_subscription_creation=AutoSubscriptionCreation(allowAutoSubscriptionCreation=True),
        subscription_types=["Exclusive", "Shared", "Failover", "Key_Shared"],
        encryption_required=False,
        subscription_expiration_minutes=0,
        inactive_topics=InactiveTopicPolicies(deleteWhileInactive=False),
    )


def _dispatch_rate(config: BrokerConfig, messages: int, size: int) -> DispatchRate:
    return DispatchRate(
        dispatchThrottlingRateInMsg=messages,
        dispatchThrottlingRateInByte=size,
        relativeToPublishRate=config.dispatchThrottlingRateRelativeToPublishRate,
        ratePeriodInSecond=1,
    )


def _quota(config: BrokerConfig) -> BacklogQuota:
    return BacklogQuota(
        limitSize=config.backlogQuotaDefaultLimitBytes,
        limitTime=config.backlogQuotaDefaultLimitSecond,
        policy=config.backlogQuotaDefaultRetentionPolicy,
    )


def _inactive_topics(config: BrokerConfig) -> InactiveTopicPolicies:
    inactive_max_s = config.brokerDeleteInactiveTopicsMaxInactiveDurationSeconds
    return InactiveTopicPolicies(
        inactiveTopicDeleteMode=config.brokerDeleteInactiveTopicsMode,
        maxInactiveDurationSeconds=inactive_max_s or config.brokerDeleteInactiveTopicsFrequencySeconds,
        deleteWhileInactive=config.brokerDeleteInactiveTopicsEnabled,
    )


def _auto_topic_creation(config: BrokerConfig) -> AutoTopicCreation:
    return AutoTopicCreation(
        allowAutoTopicCreation=config.allowAutoTopicCreation,
        topicType=config.allowAutoTopicCreationType,
        defaultNumPartitions=config.defaultNumPartitions,
    )


def _publish_rate(config: BrokerConfig) -> PublishRate:
    return PublishRate(
        publishThrottlingRateInMsg=config.maxPublishRatePerTopicInMessages,
        publishThrottlingRateInByte=config.maxPublishRatePerTopicInBytes,
    )


def _subscribe_rate(config: BrokerConfig) -> SubscribeRate:
    return SubscribeRate(
        subscribeThrottlingRatePerConsumer=config.subscribeThrottlingRatePerConsumer,
        ratePeriodInSecond=config.subscribeRatePeriodPerConsumerInSecond,
    )
