"""The values of policies that are objects, with Pulsar's field names and order."""

# ruff: noqa: N815 - the fields are named as in Pulsar's JSON

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from magnetar.metadata.policy.document import Document, Int, Long

BacklogQuotaType = Literal["destination_storage", "message_age"]
"""Types of backlog quotas: in bytes, or in seconds."""

InactiveTopicDeleteMode = Literal["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"]
"""Topics that are deleted when they are inactive."""

SubscriptionType = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]
"""Types of subscriptions."""


class RetentionPolicies(Document):
    """Retention of entries that every subscription has acknowledged; -1: no limit, 0 in both fields: no retention."""

    retentionTimeInMinutes: Int = 0
    retentionSizeInMB: Int = 0


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


class PublishRate(Document):
    """Maximum messages and bytes per second that clients publish to a topic; 0 or less: no limit.

    Above it, the connections of the producers are not read for a while.
    """

    publishThrottlingRateInMsg: Int = -1
    publishThrottlingRateInByte: Long = -1


class DispatchRate(Document):
    """Maximum messages and bytes that are sent per period; 0 or less: no limit.

    The rates of a topic and of its subscriptions both limit what consumers get. With ``relativeToPublishRate``, the
    rate at which the topic is published is added.
    """

    dispatchThrottlingRateInMsg: Int = 0
    dispatchThrottlingRateInByte: Long = 0
    relativeToPublishRate: bool = False
    ratePeriodInSecond: Int = 0
    """0 means one second."""


class SubscriptionPolicies(Document):
    """Policies of one subscription of a topic."""

    dispatchRate: DispatchRate | None = None


class SubscribeRate(Document):
    """Maximum number of times that a consumer subscribes per period; 0 or less: no limit."""

    subscribeThrottlingRatePerConsumer: Int = -1
    ratePeriodInSecond: Int = 30


class AutoTopicCreation(Document):
    """Whether clients create missing topics in a namespace, and of which type."""

    allowAutoTopicCreation: bool = False
    topicType: str | None = None
    defaultNumPartitions: Int | None = None


class AutoSubscriptionCreation(Document):
    """Whether consumers create missing subscriptions."""

    allowAutoSubscriptionCreation: bool = False


class InactiveTopicPolicies(Document):
    """Whether, when and in which mode topics without clients are deleted, with all their messages.

    ``delete_when_no_subscriptions`` (also without a mode) deletes topics without subscriptions,
    ``delete_when_subscriptions_caught_up`` also those whose subscriptions have no backlog. Replicated topics are never
    deleted, and others not within the time of their retention.
    """

    inactiveTopicDeleteMode: InactiveTopicDeleteMode | None = None
    maxInactiveDurationSeconds: Int = 0
    deleteWhileInactive: bool = False


class PersistencePolicies(Document):
    """Copies of entries in Apache BookKeeper."""

    bookkeeperEnsemble: Int = 2
    bookkeeperWriteQuorum: Int = 2
    bookkeeperAckQuorum: Int = 2
    managedLedgerMaxMarkDeleteRate: float = 0.0


class OffloadPolicies(Document):
    """Storage of old ledgers elsewhere."""

    offloadersDirectory: str = "./offloaders"
    managedLedgerOffloadDriver: str | None = None
    managedLedgerOffloadMaxThreads: Int = 2
    managedLedgerOffloadPrefetchRounds: Int = 1
    managedLedgerOffloadThresholdInBytes: Long | None = None
    managedLedgerOffloadThresholdInSeconds: Long | None = None
    managedLedgerOffloadDeletionLagInMillis: Long | None = None
    managedLedgerOffloadedReadPriority: str | None = None
    managedLedgerExtraConfigurations: dict[str, str] = Field(default_factory=dict)
    s3ManagedLedgerOffloadMaxBlockSizeInBytes: Int = 64 << 20
    s3ManagedLedgerOffloadReadBufferSizeInBytes: Int = 1 << 20
    s3ManagedLedgerOffloadRoleSessionName: str = "pulsar-s3-offload"
    gcsManagedLedgerOffloadMaxBlockSizeInBytes: Int = 128 << 20
    gcsManagedLedgerOffloadReadBufferSizeInBytes: Int = 1 << 20
    s3Driver: bool = False
    gcsDriver: bool = False
    fileSystemDriver: bool = False

    @model_validator(mode="after")
    def _kind_of_driver(self) -> Self:
        driver = self.managedLedgerOffloadDriver
        self.s3Driver = driver in ("S3", "aws-s3")
        self.gcsDriver = driver == "google-cloud-storage"
        self.fileSystemDriver = driver == "filesystem"
        return self


class EntryFilters(Document):
    """Names of filters of entries, separated by commas."""

    entryFilterNames: str | None = None


class BookieAffinityGroup(Document):
    """Groups of storage nodes."""

    bookkeeperAffinityGroupPrimary: str | None = None
    bookkeeperAffinityGroupSecondary: str | None = None
