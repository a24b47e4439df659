"""Settings of dispatch, acknowledgement and delayed delivery."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field

from magnetar.cursor import limits as cursor_limits


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
    subscriptionTypesEnabled: str = Field(
        "Exclusive,Shared,Failover,Key_Shared",
        pattern=r"^\s*(Exclusive|Shared|Failover|Key_Shared)\s*(,\s*(Exclusive|Shared|Failover|Key_Shared)\s*)*$",
        description="Types of subscriptions that consumers may use, separated by commas.",
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


class DelayedDeliverySettings(BaseModel):
    """Delayed delivery."""

    delayedDeliveryEnabled: bool = Field(
        default=True, description="Delay messages with deliver_at_time in Shared and Key_Shared subscriptions."
    )
    delayedDeliveryTickTimeMillis: int = Field(
        1000, ge=0, description="Minimum milliseconds between two checks for due messages."
    )
    delayedDeliveryMaxDelayInMillis: int = Field(0, ge=0, description="Maximum delay of a message; 0: no limit.")
