"""A value for each policy that Apache Pulsar has, other than its default, for namespaces and topics."""

from __future__ import annotations

from typing import Any

from magnetar.metadata.policy.table import Policy

BACKLOG_QUOTAS = {
    "destination_storage": {"policy": "producer_exception", "limit_size": 10 << 20},
    "message_age": {"policy": "consumer_backlog_eviction", "limit_time": 600},
}
"""Arguments that set a backlog quota of each type, below the retention of the samples."""


def policy_samples(number: int) -> dict[Policy, Any]:
    """Return a value for each policy; some of them depend on ``number``, 0 or more."""
    rate = {
        "dispatchThrottlingRateInMsg": 100 + number,
        "dispatchThrottlingRateInByte": 1000,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 2,
    }
    return {
        Policy.RETENTION: {"retentionTimeInMinutes": 60 + number, "retentionSizeInMB": 1000},
        Policy.MESSAGE_TTL: 3600 + number,
        Policy.DEDUPLICATION: True,
        Policy.DEDUPLICATION_SNAPSHOT_INTERVAL: 120,
        Policy.DELAYED_DELIVERY: {"tickTime": 2000, "active": True, "maxDeliveryDelayInMillis": 5000},
        Policy.PAUSE_ON_ACK_STATE: True,
        Policy.SCHEMA_COMPATIBILITY_STRATEGY: "BACKWARD",
        Policy.SCHEMA_VALIDATION_ENFORCED: True,
        Policy.MAX_PRODUCERS: 10 + number,
        Policy.MAX_CONSUMERS: 11 + number,
        Policy.MAX_CONSUMERS_PER_SUBSCRIPTION: 12 + number,
        Policy.MAX_SUBSCRIPTIONS: 13 + number,
        Policy.MAX_UNACKED_MESSAGES_PER_CONSUMER: 14 + number,
        Policy.MAX_UNACKED_MESSAGES_PER_SUBSCRIPTION: 15 + number,
        Policy.PUBLISH_RATE: {"publishThrottlingRateInMsg": 16 + number, "publishThrottlingRateInByte": 17},
        Policy.DISPATCH_RATE: rate,
        Policy.SUBSCRIPTION_DISPATCH_RATE: rate | {"relativeToPublishRate": True},
        Policy.REPLICATOR_DISPATCH_RATE: rate | {"ratePeriodInSecond": 3},
        Policy.SUBSCRIBE_RATE: {"subscribeThrottlingRatePerConsumer": 18, "ratePeriodInSecond": 60},
        Policy.MAX_TOPICS: 1000 + number,
        Policy.MAX_MESSAGE_SIZE: 100_000,
        Policy.AUTO_TOPIC_CREATION: {
            "allowAutoTopicCreation": True,
            "topicType": "partitioned",
            "defaultNumPartitions": 2,
        },
        Policy.AUTO_SUBSCRIPTION_CREATION: {"allowAutoSubscriptionCreation": True},
        Policy.SUBSCRIPTION_TYPES_ENABLED: ["Shared", "Failover"],
        Policy.ENCRYPTION_REQUIRED: True,
        Policy.SUBSCRIPTION_EXPIRATION_TIME: 60,
        Policy.INACTIVE_TOPICS: {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 3600,
            "deleteWhileInactive": True,
        },
        Policy.COMPACTION_THRESHOLD: 1 << 20,
        Policy.PERSISTENCE: {
            "bookkeeperEnsemble": 1,
            "bookkeeperWriteQuorum": 1,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 1.5,
        },
        Policy.OFFLOAD_POLICIES: {"managedLedgerOffloadDriver": "filesystem"},
        Policy.OFFLOAD_THRESHOLD: 1 << 30,
        Policy.OFFLOAD_THRESHOLD_IN_SECONDS: 3600,
        Policy.OFFLOAD_DELETION_LAG: 60_000,
        Policy.SCHEMA_AUTO_UPDATE_COMPATIBILITY_STRATEGY: "Full",
        Policy.SUBSCRIPTION_AUTH_MODE: "Prefix",
    }
