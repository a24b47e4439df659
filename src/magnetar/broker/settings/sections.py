"""The settings of a broker by subject. Each class is a section of the reference page, its docstring the heading."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from magnetar.base import limits
from magnetar.cursor import limits as cursor_limits
from magnetar.metadata.policies import ReplicatedSubscriptionSync


class ServiceSettings(BaseModel):
    """The cluster, and where it is found."""

    clusterName: str = Field("standalone", description="Name of this cluster; stamped into every replicated message.")
    brokerServicePort: int = Field(6650, ge=0, le=65535, description="Port of the binary protocol; 0 picks one.")
    webServicePort: int = Field(8080, ge=0, le=65535, description="Port of the admin REST API; 0 picks one.")
    bindAddress: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - a server's default
    advertisedAddress: str = Field("localhost", description="Host name that clients are told to connect to.")
    dataDirectory: Path = Field(Path("data"), description="Directory of all durable state.")


class ConnectionSettings(BaseModel):
    """Connections, and the memory that clients take."""

    maxMessageSize: int = Field(limits.MAX_MESSAGE_SIZE, gt=0, description="Largest message, in bytes.")
    maxMessageMetadataSize: int = Field(
        limits.METADATA_SIZE_MAX,
        gt=0,
        description="Bytes of the metadata of a message: its properties, keys and encryption keys.",
    )
    keepAliveIntervalSeconds: float = Field(
        limits.KEEP_ALIVE_INTERVAL_SECONDS, gt=0, description="Seconds between keep-alive probes."
    )
    connectionLivenessCheckTimeoutMillis: int = Field(
        5000, ge=0, description="How long an old owner may take to prove that it lives."
    )
    maxPendingPublishRequestsPerConnection: int = Field(
        1000, gt=0, description="Publishes in flight at which a connection is no longer read."
    )
    maxWithheldReceiptsPerConnection: int = Field(
        50_000,
        gt=0,
        description="Receipts withheld because too much is at risk at which a connection is no longer read.",
    )
    maxConcurrentConnections: int = Field(
        10_000, gt=0, description="Connections accepted at the same time; fewer if the limit of open files is low."
    )
    maxHttpServerConnections: int = Field(
        2048,
        gt=0,
        description="REST connections at the same time; fewer if the limit of open files is low. Beyond, the one that "
        "waits longest for a request is closed.",
    )
    httpMaxRequestHeaderSize: int = Field(8192, gt=0, description="Bytes of the path and the headers of a request.")
    httpRequestTimeoutSeconds: float = Field(
        30,
        gt=0,
        description="Seconds for a REST client to send a request, or to read a part of the answer; an idle connection "
        "is closed after as long.",
    )
    connectionSendBufferBytes: int = Field(
        1 << 20, gt=0, description="Unsent bytes at which a connection gets no more messages."
    )
    memoryLimitMB: int = Field(
        0,
        ge=0,
        description="Memory that the broker may take, of which each limit below is a share; 0: a quarter of the "
        "memory of the machine, or of its control group, at least 192 and at most 1024.",
    )
    maxMessagePublishBufferSizeInMB: int = Field(
        0,
        ge=0,
        description="Messages that are arriving or not durable yet, of all connections; beyond, sockets are not read. "
        "0: a 24th of memoryLimitMB.",
    )
    maxRestBodiesSizeInMB: int = Field(
        0, ge=0, description="Bodies of REST requests that are being read. 0: a 64th of memoryLimitMB."
    )
    maxRestAnswersSizeInMB: int = Field(
        0, ge=0, description="Answers to REST requests that clients have not read. 0: a 32nd of memoryLimitMB."
    )
    maxSendBuffersSizeInMB: int = Field(
        0,
        ge=0,
        description="What is written for clients and they have not read, of all connections. 0: an eighth of "
        "memoryLimitMB.",
    )


class TopicSettings(BaseModel):
    """Topics, and what they may have."""

    allowAutoTopicCreation: bool = Field(default=True, description="Create a topic when a client first asks for it.")
    allowAutoTopicCreationType: Literal["non-partitioned", "partitioned"] = Field(
        "non-partitioned", description="Kind of an automatically created topic."
    )
    defaultNumPartitions: int = Field(1, gt=0, description="Partitions of an automatically created topic.")
    maxNameLength: int = Field(
        limits.NAME_LENGTH_MAX,
        ge=1024,
        description="Bytes of the name of a topic, with its tenant and namespace, or of a tenant, namespace, "
        "subscription, producer or consumer. What exists with a longer name goes on.",
    )
    maxProducerMetadataSize: int = Field(
        16 * 1024, ge=0, description="Characters of the keys and values in the metadata of a producer."
    )
    maxConsumerMetadataSize: int = Field(
        1024, ge=0, description="Characters of the keys and values in the metadata of a consumer."
    )
    maxPropertiesSize: int = Field(
        64 * 1024,
        ge=0,
        description="Characters of the keys and values in the properties of a new subscription or topic.",
    )
    maxNumPartitionsPerPartitionedTopic: int = Field(1000, gt=0, description="Most partitions that a topic may have.")
    maxProducersPerTopic: int = Field(
        0, ge=0, description="Producers of clients that a topic may have, those that wait included; 0: no limit."
    )
    maxSubscriptionsPerTopic: int = Field(0, ge=0, description="Subscriptions that a topic may have; 0: no limit.")
    maxConsumersPerTopic: int = Field(
        0, ge=0, description="Consumers that all subscriptions of a topic together may have; 0: no limit."
    )
    maxConsumersPerSubscription: int = Field(
        0, ge=0, description="Consumers that a subscription may have; 0: no limit."
    )
    allowAutoSubscriptionCreation: bool = Field(
        default=True, description="Create a subscription when a consumer first asks."
    )


class DispatchSettings(BaseModel):
    """Dispatch and acknowledgement."""

    dispatcherMaxReadBatchSize: int = Field(100, gt=0, description="Entries read at once for dispatch.")
    dispatcherMaxReadSizeBytes: int = Field(5 << 20, gt=0, description="Bytes read at once for dispatch.")
    dispatcherMaxRoundRobinBatchSize: int = Field(20, gt=0, description="Messages to one consumer before the next.")
    maxUnackedMessagesPerConsumer: int = Field(
        50_000, ge=0, description="0: no limit. Shared and Key_Shared subscriptions only."
    )
    maxUnackedMessagesPerSubscription: int = Field(
        200_000, ge=0, description="0: no limit. Shared and Key_Shared subscriptions only."
    )
    subscriptionKeySharedEnable: bool = Field(default=True, description="Allow Key_Shared subscriptions.")
    subscriptionKeySharedUseConsistentHashing: bool = Field(
        default=True,
        description="Divide the keys of a Key_Shared subscription by consistent hashing; else halve ranges.",
    )
    subscriptionKeySharedConsistentHashingReplicaPoints: int = Field(
        100, gt=0, description="Points of each consumer on the ring: the more, the more evenly the keys are divided."
    )
    keySharedLookAheadMsgInReplayThresholdPerConsumer: int = Field(
        2000,
        ge=0,
        description="Messages of a Key_Shared subscription, for each consumer, that may wait for busy ones before "
        "reading stops; 0: no such limit.",
    )
    keySharedLookAheadMsgInReplayThresholdPerSubscription: int = Field(
        20_000, ge=0, description="The same for all consumers together. Both 0: as many as may be unacknowledged."
    )
    activeConsumerFailoverDelayTimeMillis: int = Field(
        1000, ge=0, description="Pause before a new active consumer of a Failover subscription receives."
    )
    acknowledgmentAtBatchIndexLevelEnabled: bool = Field(
        default=True, description="Keep acknowledgements of batch members."
    )
    acknowledgmentFlushIntervalMs: int = Field(
        10, ge=0, description="How long acknowledgements without a receipt may wait to be written together."
    )
    managedLedgerMaxUnackedRangesToPersist: int = Field(
        cursor_limits.UNACKED_RANGES_MAX,
        gt=0,
        description="Ranges of individually acknowledged entries that a subscription persists. Pulsar, which writes "
        "them all with every change, has 10000; here one costs some bytes, once. What comes beyond is counted in the "
        "stats (unpersistedAcks) and comes again after a crash, unless dispatch pauses.",
    )
    managedLedgerMaxBatchDeletedIndexToPersist: int = Field(
        cursor_limits.BATCH_DELETED_MAX, gt=0, description="The same for batches that are acknowledged in part."
    )
    managedLedgerMaxUnackedRangesToPersistInMetadataStore: int = Field(
        cursor_limits.METADATA_RANGES_MAX,
        ge=0,
        description="The same for the metadata store, which takes over while the log cannot be written.",
    )
    managedLedgerMaxCursorRecordSizeBytes: int = Field(
        cursor_limits.RECORD_BYTES_MAX,
        ge=1024,
        description="Largest write of acknowledgement state; what is larger is written in pieces.",
    )
    dispatcherPauseOnAckStatePersistentEnabled: bool = Field(
        default=False, description="Pause dispatch rather than lose acknowledgement state (PIP-299)."
    )


class StorageSettings(BaseModel):
    """Storage."""

    journalSyncData: bool = Field(
        default=True, description="Receipt only after the disk has the bytes; false: a power loss takes recent entries."
    )
    firstLedgerId: int = Field(
        0,
        ge=0,
        description="Lowest ledger id in a new data directory, if it is above the clock's milliseconds. For a cluster "
        "that lost its data and whose clock is behind: other clusters say which id they need.",
    )
    diskLowWaterBytes: int = Field(
        64 << 20, ge=0, description="Free space of the disk below which publishing pauses; 0: the disk is not watched."
    )
    diskReserveBytes: int = Field(
        32 << 20, ge=0, description="Room held back for acknowledgements and metadata when the disk is full."
    )
    logSizeLimit: int = Field(
        64 << 20, gt=0, le=1 << 30, description="Bytes after which the next file of the shared log is begun."
    )
    managedLedgerMaxEntriesPerLedger: int = Field(50_000, gt=0, description="Entries after which a ledger is sealed.")
    managedLedgerMaxSizePerLedgerMbytes: int = Field(2048, gt=0, description="Size after which a ledger is sealed.")
    managedLedgerMinLedgerRolloverTimeMinutes: int = Field(
        10, ge=0, description="A younger ledger is not sealed, however full it is."
    )
    managedLedgerMaxLedgerRolloverTimeMinutes: int = Field(
        240, gt=0, description="Age after which a ledger is sealed at the next append."
    )
    managedLedgerMaxReadsInFlightSizeInMB: int = Field(
        0,
        ge=0,
        description="Entries that are read from the disk for dispatch and not sent yet, of all subscriptions. 0: a "
        "sixteenth of memoryLimitMB.",
    )
    managedLedgerCacheSizeMB: int = Field(
        -1,
        ge=-1,
        description="Memory for the newest entries of all topics, with their overhead; -1: an eighth of memoryLimitMB.",
    )


class RetentionSettings(BaseModel):
    """Retention, expiry and backlog quotas."""

    defaultRetentionTimeInMinutes: int = Field(
        0, ge=-1, description="Keep acknowledged entries this long; -1 for ever."
    )
    defaultRetentionSizeInMB: int = Field(0, ge=-1, description="Keep this much of acknowledged entries; -1 all.")
    brokerUnloadInactiveTopicsMaxInactiveDurationSeconds: float = Field(
        3600, ge=0, description="Unload a topic that nobody has used for so long; 0: never."
    )
    brokerUnloadInactiveTopicsFrequencySeconds: float = Field(
        60, gt=0, description="Seconds between two looks for topics that nobody uses."
    )
    retentionCheckIntervalInSeconds: int = Field(120, gt=0, description="Seconds between two trims of all topics.")

    ttlDurationDefaultInSeconds: int = Field(
        0, ge=0, description="Acknowledge messages of this age for every subscription; 0: never."
    )
    messageExpiryCheckIntervalInMinutes: float = Field(
        5, gt=0, description="Minutes between two looks for such messages."
    )
    backlogQuotaCheckIntervalInSeconds: float = Field(60, gt=0, description="Seconds between two checks of backlogs.")
    backlogQuotaDefaultLimitBytes: int = Field(
        -1, ge=-1, description="Backlog of a topic in bytes at which its quota's policy acts; -1: none."
    )
    backlogQuotaDefaultLimitSecond: int = Field(
        -1, ge=-1, description="Age of the oldest unacknowledged message at which it acts; -1 and 0: none."
    )
    backlogQuotaDefaultRetentionPolicy: Literal[
        "producer_request_hold", "producer_exception", "consumer_backlog_eviction"
    ] = Field("producer_request_hold", description="What a backlog quota does to a topic that exceeds it.")


class DeduplicationSettings(BaseModel):
    """Deduplication."""

    brokerDeduplicationEnabled: bool = Field(
        default=False, description="Store each message of a named producer once (PIP-6)."
    )
    brokerDeduplicationSnapshotIntervalSeconds: int = Field(
        120, ge=0, description="Age at which a snapshot of the producers' sequence ids is due; 0: by entries alone."
    )
    brokerDeduplicationEntriesInterval: int = Field(
        1000, gt=0, description="Entries after which a snapshot of the producers' sequence ids is due."
    )
    brokerDeduplicationSnapshotFrequencyInSeconds: int = Field(
        120, gt=0, description="Seconds between two looks at all topics for due snapshots and inactive producers."
    )
    brokerDeduplicationMaxNumberOfProducers: int = Field(
        1_000_000,
        gt=0,
        description="Producers remembered of a topic; beyond, the longest inactive are forgotten, and it is logged.",
    )
    brokerDeduplicationProducerInactivityTimeoutMinutes: int = Field(
        360, gt=0, description="How long a producer is remembered that is not connected."
    )


class DelayedDeliverySettings(BaseModel):
    """Delayed delivery."""

    delayedDeliveryEnabled: bool = Field(
        default=True, description="Honour deliver_at_time in Shared and Key_Shared subscriptions."
    )
    delayedDeliveryTickTimeMillis: int = Field(
        1000, ge=0, description="Shortest time between two looks for messages that have become due."
    )
    delayedDeliveryMaxDelayInMillis: int = Field(
        0, ge=0, description="How far ahead a message's delivery may lie; 0: any time."
    )


class ReplicationSettings(BaseModel):
    """Replication."""

    replicationStartAt: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a new link begins in a topic that already has messages."
    )
    enableReplicatedSubscriptions: bool = Field(
        default=True, description="Carry subscriptions' progress to other clusters; false forbids it in all topics."
    )
    maxAtRiskMessages: int = Field(
        -1, ge=-1, description="Messages of a topic that may be in too few other clusters; -1: any, 0: none."
    )
    maxAtRiskSeconds: int = Field(
        -1, ge=-1, description="Seconds within which those were published; -1: any. Publishing slows down for both."
    )
    atRiskCopies: int = Field(1, ge=1, description="Other clusters that must have a message for it to be safe.")
    atRiskAbsenceSeconds: int = Field(
        -1, ge=-1, description="How long a cluster may confirm nothing before it counts no more; -1: for ever."
    )
    replicateSubscriptionState: bool = Field(
        default=False, description="Replicate every durable subscription, whatever its clients ask for (PIP-398)."
    )
    replicatedSubscriptionProgressIntervalMs: int = Field(
        50, gt=0, description="Shortest time between two progress messages of a topic to a cluster."
    )
    replicatedSubscriptionFullStateIntervalSeconds: int = Field(
        30, gt=0, description="Seconds between two full states of a topic to a cluster."
    )
    replicatedSubscriptionSync: ReplicatedSubscriptionSync = Field(
        "auto",
        description="How progress is carried: exact; by markers, PIP-33's snapshots; or auto, which is exact to "
        "clusters of Magnetar and by markers to those of Apache Pulsar.",
    )
    replicatedSubscriptionsSnapshotFrequencyMillis: int = Field(
        1000, gt=0, description="Shortest time between two snapshots of a topic."
    )
    replicatedSubscriptionsSnapshotTimeoutSeconds: int = Field(
        30, gt=0, description="How long a snapshot waits for the answers of all clusters."
    )
    replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds: float = Field(
        0,
        ge=0,
        description="Leave a cluster out of snapshots when nobody has carried the link there for so long; 0: never. "
        "In mode markers only, between clusters of Magnetar: only they can say what they hold of it.",
    )
    replicatedSubscriptionsSnapshotMaxCachedPerSubscription: int = Field(
        30, ge=3, description="Snapshots kept for a subscription that has not come as far yet."
    )
    replicatedSubscriptionAtRiskAfterMs: int = Field(
        1000, gt=0, description="How long what a cluster lacks may be under way before a subscription is at risk."
    )
