"""Settings of a broker by subject. Each class is a section of the reference page; its docstring is the heading."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from magnetar.base import limits
from magnetar.cursor import limits as cursor_limits
from magnetar.metadata.policies import ReplicatedSubscriptionSync


class ServiceSettings(BaseModel):
    """Name and addresses of the cluster."""

    clusterName: str = Field("standalone", description="Name of this cluster. Every replicated message contains it.")
    brokerServicePort: int = Field(6650, ge=0, le=65535, description="Port of the binary protocol; 0: any free port.")
    webServicePort: int = Field(8080, ge=0, le=65535, description="Port of the admin REST API; 0: any free port.")
    bindAddress: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - a server's default
    advertisedAddress: str = Field("localhost", description="Host name in the addresses that lookups return.")
    dataDirectory: Path = Field(Path("data"), description="Directory of all durable state.")
    acknowledgeIgnoredKeys: str = Field(
        "",
        description="Keys of Apache Pulsar that may be ignored although it is dangerous, separated by commas; `all`: "
        "all of them. Also unknown keys to ignore, by name.",
    )


class ConnectionSettings(BaseModel):
    """Connections, and the memory that they use."""

    maxMessageSize: int = Field(limits.MAX_MESSAGE_SIZE, gt=0, description="Maximum size of a message, in bytes.")
    maxMessageMetadataSize: int = Field(
        limits.METADATA_SIZE_MAX,
        gt=0,
        description="Maximum size of a message's metadata, in bytes: properties, keys and encryption keys.",
    )
    keepAliveIntervalSeconds: float = Field(
        limits.KEEP_ALIVE_INTERVAL_SECONDS, gt=0, description="Seconds between keep-alive pings."
    )
    connectionLivenessCheckTimeoutMillis: int = Field(
        5000,
        ge=0,
        description="Milliseconds within which an old producer or consumer must answer a "
        "ping; otherwise a new one replaces it.",
    )
    maxPendingPublishRequestsPerConnection: int = Field(
        1000,
        gt=0,
        description="Maximum number of pending publishes of a connection; its socket is not read while it has more.",
    )
    maxWithheldReceiptsPerConnection: int = Field(
        50_000,
        gt=0,
        description="Maximum number of withheld receipts of a connection (maxAtRiskMessages); its socket is not read "
        "while it has more.",
    )
    maxConcurrentConnections: int = Field(
        10_000, gt=0, description="Maximum number of connections; lower if the limit of open files is low."
    )
    maxHttpServerConnections: int = Field(
        2048,
        gt=0,
        description="Maximum number of REST connections; lower if the limit of open files is low. Beyond it, the "
        "connection that has been idle for longest is closed.",
    )
    httpMaxRequestHeaderSize: int = Field(
        8192, gt=0, description="Maximum size of the path and the headers of a request, in bytes."
    )
    httpRequestTimeoutSeconds: float = Field(
        30,
        gt=0,
        description="Seconds within which a REST client must send a request, or read a part of the answer. An idle "
        "connection is closed after the same time.",
    )
    connectionSendBufferBytes: int = Field(
        1 << 20,
        gt=0,
        description="Maximum number of unsent bytes of a connection; it gets no messages while it has more.",
    )
    memoryLimitMB: int = Field(
        0,
        ge=0,
        description="Maximum memory of the broker. Each limit below is a share of it. 0: a quarter of the memory of "
        "the machine, or of its control group, at least 192 and at most 1024.",
    )
    maxMessagePublishBufferSizeInMB: int = Field(
        0,
        ge=0,
        description="Maximum size of the messages of all connections that are arriving or not durable yet. Beyond it, "
        "sockets are not read. 0: a 24th of memoryLimitMB.",
    )
    maxRestBodiesSizeInMB: int = Field(
        0, ge=0, description="Maximum size of the bodies of all REST requests in progress. 0: a 64th of memoryLimitMB."
    )
    maxRestAnswersSizeInMB: int = Field(
        0, ge=0, description="Maximum size of all unread answers to REST requests. 0: a 32nd of memoryLimitMB."
    )
    maxSendBuffersSizeInMB: int = Field(
        0,
        ge=0,
        description="Maximum size of the send buffers of all connections: bytes that clients have not read yet. 0: an "
        "eighth of memoryLimitMB.",
    )


class TopicSettings(BaseModel):
    """Topics and their limits."""

    allowAutoTopicCreation: bool = Field(default=True, description="Create a missing topic when a client asks for it.")
    allowAutoTopicCreationType: Literal["non-partitioned", "partitioned"] = Field(
        "non-partitioned", description="Type of an automatically created topic."
    )
    defaultNumPartitions: int = Field(1, gt=0, description="Number of partitions of an automatically created topic.")
    maxNameLength: int = Field(
        limits.NAME_LENGTH_MAX,
        ge=1024,
        description="Maximum length in bytes of the name of a topic, with its tenant and namespace, or of a tenant, "
        "namespace, subscription, producer or consumer. It applies to new names only.",
    )
    maxProducerMetadataSize: int = Field(
        16 * 1024, ge=0, description="Maximum number of characters of the keys and values in a producer's metadata."
    )
    maxConsumerMetadataSize: int = Field(
        1024, ge=0, description="Maximum number of characters of the keys and values in a consumer's metadata."
    )
    maxPropertiesSize: int = Field(
        64 * 1024,
        ge=0,
        description="Maximum characters of keys and values in the properties of a new subscription or topic.",
    )
    maxNumPartitionsPerPartitionedTopic: int = Field(
        1000,
        ge=0,
        description=f"Maximum number of partitions of a topic; 0: {limits.PARTITIONS_MAX}.",
    )
    maxProducersPerTopic: int = Field(
        0,
        ge=0,
        description="Maximum number of producers of a topic, waiting ones included, without links; 0: no limit.",
    )
    maxSubscriptionsPerTopic: int = Field(0, ge=0, description="Maximum subscriptions of a topic; 0: no limit.")
    maxConsumersPerTopic: int = Field(
        0, ge=0, description="Maximum number of consumers of a topic, over all subscriptions; 0: no limit."
    )
    maxConsumersPerSubscription: int = Field(
        0, ge=0, description="Maximum number of consumers of a subscription; 0: no limit."
    )
    allowAutoSubscriptionCreation: bool = Field(
        default=True, description="Create a missing subscription when a consumer asks for it."
    )


class DispatchSettings(BaseModel):
    """Dispatch and acknowledgement."""

    dispatcherMaxReadBatchSize: int = Field(100, gt=0, description="Maximum entries of one read for dispatch.")
    dispatcherMaxReadSizeBytes: int = Field(5 << 20, gt=0, description="Maximum bytes of one read for dispatch.")
    dispatcherMaxRoundRobinBatchSize: int = Field(
        20, gt=0, description="Maximum number of messages for one consumer before the next one gets some."
    )
    maxUnackedMessagesPerConsumer: int = Field(
        50_000, ge=0, description="Maximum unacknowledged messages of a Shared or Key_Shared consumer; 0: no limit."
    )
    maxUnackedMessagesPerSubscription: int = Field(
        200_000, ge=0, description="The same limit for all consumers of the subscription; 0: no limit."
    )
    subscriptionKeySharedEnable: bool = Field(default=True, description="Allow Key_Shared subscriptions.")
    subscriptionKeySharedUseConsistentHashing: bool = Field(
        default=True, description="Distribute the keys of Key_Shared by consistent hashing; false: by splitting ranges."
    )
    subscriptionKeySharedConsistentHashingReplicaPoints: int = Field(
        100, gt=0, description="Points of each consumer on the hash ring; more points distribute the keys more evenly."
    )
    keySharedLookAheadMsgInReplayThresholdPerConsumer: int = Field(
        2000,
        ge=0,
        description="Maximum number of messages of a Key_Shared subscription, for each consumer, that wait for busy "
        "consumers; beyond it, reading stops. 0: no such limit.",
    )
    keySharedLookAheadMsgInReplayThresholdPerSubscription: int = Field(
        20_000, ge=0, description="The same for all consumers together. Both 0: the limits of unacknowledged messages."
    )
    activeConsumerFailoverDelayTimeMillis: int = Field(
        1000, ge=0, description="Milliseconds before a new active consumer of a Failover subscription gets messages."
    )
    acknowledgmentAtBatchIndexLevelEnabled: bool = Field(
        default=True, description="Keep acknowledgements of single messages of a batch."
    )
    acknowledgmentFlushIntervalMs: int = Field(
        10, ge=0, description="Milliseconds for which acknowledgements without a receipt are collected for one write."
    )
    managedLedgerMaxUnackedRangesToPersist: int = Field(
        cursor_limits.UNACKED_RANGES_MAX,
        gt=0,
        description="Maximum number of ranges of individually acknowledged entries that a subscription persists. "
        "Pulsar writes all ranges with every change, and its default is 10000; here, each range is written once. "
        "Further ranges are counted in the stats (unpersistedAcks), and their entries are redelivered after a crash, "
        "unless dispatcherPauseOnAckStatePersistentEnabled is set.",
    )
    managedLedgerMaxBatchDeletedIndexToPersist: int = Field(
        cursor_limits.BATCH_DELETED_MAX, gt=0, description="The same limit for partly acknowledged batches."
    )
    managedLedgerMaxUnackedRangesToPersistInMetadataStore: int = Field(
        cursor_limits.METADATA_RANGES_MAX,
        ge=0,
        description="The same limit for the metadata store, which stores the ranges while the log cannot be written.",
    )
    managedLedgerMaxCursorRecordSizeBytes: int = Field(
        cursor_limits.RECORD_BYTES_MAX,
        ge=1024,
        description="Maximum size of one write of acknowledgement state, in bytes; a larger state is split.",
    )
    dispatcherPauseOnAckStatePersistentEnabled: bool = Field(
        default=False, description="Pause dispatch when further acknowledgements could not be persisted (PIP-299)."
    )


class StorageSettings(BaseModel):
    """Storage."""

    journalSyncData: bool = Field(
        default=True, description="Sync the disk before a receipt; false: a power loss can lose recent entries."
    )
    firstLedgerId: int = Field(
        0,
        ge=0,
        description="Lowest ledger id of a new data directory, if it is greater than the current time in milliseconds. "
        "Needed by a cluster that lost its data and whose clock is behind; errors from other clusters name the id.",
    )
    diskLowWaterBytes: int = Field(
        64 << 20, ge=0, description="Free disk space in bytes below which publishing pauses; 0: no check."
    )
    diskReserveBytes: int = Field(
        32 << 20, ge=0, description="Disk space in bytes reserved for acknowledgements and metadata."
    )
    logSizeLimit: int = Field(
        64 << 20, gt=0, le=1 << 30, description="Size in bytes after which the shared log starts a new file."
    )
    managedLedgerMaxEntriesPerLedger: int = Field(50_000, gt=0, description="Entries after which a ledger is sealed.")
    managedLedgerMaxSizePerLedgerMbytes: int = Field(2048, gt=0, description="Size after which a ledger is sealed.")
    managedLedgerMinLedgerRolloverTimeMinutes: int = Field(
        10, ge=0, description="Minimum age in minutes of a ledger before it is sealed."
    )
    managedLedgerMaxLedgerRolloverTimeMinutes: int = Field(
        240, gt=0, description="Age in minutes after which a ledger is sealed at the next append."
    )
    managedLedgerMaxReadsInFlightSizeInMB: int = Field(
        0,
        ge=0,
        description="Maximum size of the entries of all subscriptions that are read from the disk for dispatch and not "
        "sent yet. 0: a sixteenth of memoryLimitMB.",
    )
    managedLedgerCacheSizeMB: int = Field(
        -1,
        ge=-1,
        description="Size of the cache of the newest entries of all topics, with overhead; -1: an eighth of "
        "memoryLimitMB.",
    )


class RetentionSettings(BaseModel):
    """Retention, expiry and backlog quotas."""

    defaultRetentionTimeInMinutes: int = Field(
        0, ge=-1, description="Minutes for which acknowledged entries are retained; -1: no limit."
    )
    defaultRetentionSizeInMB: int = Field(
        0, ge=-1, description="Size of the retained acknowledged entries; -1: no limit."
    )
    brokerUnloadInactiveTopicsMaxInactiveDurationSeconds: float = Field(
        3600, ge=0, description="Seconds after which an unused topic is unloaded; 0: never."
    )
    brokerUnloadInactiveTopicsFrequencySeconds: float = Field(
        60, gt=0, description="Seconds between two checks for unused topics."
    )
    retentionCheckIntervalInSeconds: int = Field(120, gt=0, description="Seconds between two trims of all topics.")

    ttlDurationDefaultInSeconds: int = Field(
        0, ge=0, description="Age in seconds at which messages are acknowledged for every subscription; 0: never."
    )
    messageExpiryCheckIntervalInMinutes: float = Field(
        5, gt=0, description="Minutes between two checks for expired messages."
    )
    backlogQuotaCheckIntervalInSeconds: float = Field(
        60, gt=0, description="Seconds between two checks of backlog quotas."
    )
    backlogQuotaDefaultLimitBytes: int = Field(
        -1, ge=-1, description="Maximum backlog of a topic in bytes; -1: no limit."
    )
    backlogQuotaDefaultLimitSecond: int = Field(
        -1, ge=-1, description="Maximum age of a topic's oldest unacknowledged message, in seconds; -1 or 0: no limit."
    )
    backlogQuotaDefaultRetentionPolicy: Literal[
        "producer_request_hold", "producer_exception", "consumer_backlog_eviction"
    ] = Field("producer_request_hold", description="Policy of a topic that exceeds its backlog quota.")


class DeduplicationSettings(BaseModel):
    """Deduplication."""

    brokerDeduplicationEnabled: bool = Field(
        default=False, description="Store each message of a named producer once (PIP-6)."
    )
    brokerDeduplicationSnapshotIntervalSeconds: int = Field(
        120, ge=0, description="Maximum age in seconds of a snapshot of the producers' sequence ids; 0: any age."
    )
    brokerDeduplicationEntriesInterval: int = Field(
        1000, gt=0, description="Maximum number of entries after a snapshot of the producers' sequence ids."
    )
    brokerDeduplicationSnapshotFrequencyInSeconds: int = Field(
        120, gt=0, description="Seconds between two checks of all topics for due snapshots and inactive producers."
    )
    brokerDeduplicationMaxNumberOfProducers: int = Field(
        1_000_000,
        gt=0,
        description="Maximum number of remembered producers of a topic. Beyond it, the producers that have been "
        "inactive for longest are removed, with a warning in the log.",
    )
    brokerDeduplicationProducerInactivityTimeoutMinutes: int = Field(
        360, gt=0, description="Minutes for which a disconnected producer is remembered."
    )


class DelayedDeliverySettings(BaseModel):
    """Delayed delivery."""

    delayedDeliveryEnabled: bool = Field(
        default=True, description="Delay messages with deliver_at_time in Shared and Key_Shared subscriptions."
    )
    delayedDeliveryTickTimeMillis: int = Field(
        1000, ge=0, description="Minimum milliseconds between two checks for due messages."
    )
    delayedDeliveryMaxDelayInMillis: int = Field(0, ge=0, description="Maximum delay of a message; 0: no limit.")


class ReplicationSettings(BaseModel):
    """Replication."""

    replicationStartAt: Literal["earliest", "latest"] = Field(
        "earliest", description="Start position of a new link in a topic that already has messages."
    )
    enableReplicatedSubscriptions: bool = Field(
        default=True, description="Allow replicated subscriptions; false forbids them in all topics."
    )
    maxAtRiskMessages: int = Field(
        -1,
        ge=-1,
        description="Maximum number of messages of a topic that are in fewer than atRiskCopies other "
        "clusters. Beyond it, receipts are withheld. -1: no limit.",
    )
    maxAtRiskSeconds: int = Field(
        -1,
        ge=-1,
        description="Maximum age of such messages, in seconds. Beyond it, receipts are withheld. -1: no limit.",
    )
    atRiskCopies: int = Field(
        1, ge=1, description="Number of other clusters that must store a message before it is safe."
    )
    atRiskAbsenceSeconds: int = Field(
        -1, ge=-1, description="Seconds without a confirmation after which a cluster no longer counts; -1: no limit."
    )
    replicateSubscriptionState: bool = Field(
        default=False,
        description="Replicate every durable subscription, even if its clients do not ask for it (PIP-398).",
    )
    replicatedSubscriptionProgressIntervalMs: int = Field(
        50, gt=0, description="Minimum milliseconds between two progress messages of a topic to a cluster."
    )
    replicatedSubscriptionFullStateIntervalSeconds: int = Field(
        30, gt=0, description="Seconds between two full states of a topic to a cluster."
    )
    replicatedSubscriptionSync: ReplicatedSubscriptionSync = Field(
        "auto",
        description="Method of replicating progress: exact; markers (the snapshots of PIP-33); or auto: exact to "
        "clusters of Magnetar, markers to Apache Pulsar.",
    )
    replicatedSubscriptionsSnapshotFrequencyMillis: int = Field(
        1000, gt=0, description="Minimum milliseconds between two snapshots of a topic."
    )
    replicatedSubscriptionsSnapshotTimeoutSeconds: int = Field(
        30, gt=0, description="Maximum seconds that a snapshot waits for the answers of all clusters."
    )
    replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds: float = Field(
        0,
        ge=0,
        description="Omit a cluster from snapshots after this many seconds without a holder of the link to it; 0: "
        "never. Only in mode markers, and only between clusters of Magnetar, because only they report their entries.",
    )
    replicatedSubscriptionsSnapshotMaxCachedPerSubscription: int = Field(
        30, ge=3, description="Maximum number of snapshots kept for a subscription that has not reached them yet."
    )
    replicatedSubscriptionAtRiskAfterMs: int = Field(
        1000, gt=0, description="Milliseconds without a confirmation after which a subscription is at risk."
    )
