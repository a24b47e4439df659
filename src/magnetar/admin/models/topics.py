"""Statistics of topics and their links."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from magnetar.admin.models.acknowledgements import SetFence
from magnetar.admin.models.clients import PublisherStats
from magnetar.admin.models.model import NOT_SHOWN, Model
from magnetar.admin.models.subscriptions import SubscriptionStats
from magnetar.ledger.statistics import LedgerStatistics

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position


@dataclass(slots=True, kw_only=True)
class ReplicatorStats(Model):
    """One remote cluster: "in" counts entries that its replicator publishes here, "out" entries sent there."""

    msg_rate_in: float = 0.0
    msg_in_count: int = 0
    msg_throughput_in: float = 0.0
    bytes_in_count: int = 0
    msg_rate_out: float = 0.0
    msg_out_count: int = 0
    msg_throughput_out: float = 0.0
    bytes_out_count: int = 0
    msg_rate_expired: float = 0.0
    replication_backlog: int | None = 0
    """Entries that the remote cluster does not hold; None: unknown."""
    connected: bool = False
    replication_delay_in_seconds: int | None = 0
    """None: the content of the remote cluster is unknown."""
    inbound_connection: str | None = None
    inbound_connected_since: str | None = None
    outbound_connection: str | None = None
    outbound_connected_since: str | None = None
    msg_expired_count: int = 0
    handovers: int = 0
    """Ours. Number of hand-overs of the link from one lease to the next."""
    damaged_at: str | None = None
    """Ours. Damaged entry at which the link has stopped."""
    pipeline: str | None = None
    """Ours. Identity of the pipeline that holds the link: host, process id and a random part."""
    parked_reason: str | None = None
    """Ours. Reason why the pipeline has parked the link, such as an entry that is too large for the remote cluster."""
    replication_unknown_since: str | None = None
    """Ours. Time since which the content of the remote cluster is unknown; None: it is known."""
    replication_backlog_at_least: int | None = None
    """Ours. Lower bound of the backlog while it is unknown: entries that the remote cluster has not confirmed."""
    unfilled_through: str | None = None
    """Ours. Newest entry that the remote cluster lost and that was trimmed here before it could be sent again."""
    skipped_entries: int | None = None
    """Ours. Damaged entries that the link skipped; None: none, or their ledgers were trimmed."""
    skipped_ranges: list[str] | None = None
    """Ours. Ranges of the skipped entries, each ``first..last``, both inclusive."""


@dataclass(slots=True, kw_only=True)
class CompactionStats(Model):
    """Compaction of a topic that is never compacted."""

    last_compaction_removed_event_count: int = 0
    last_compaction_succeed_timestamp: int = 0
    last_compaction_failed_timestamp: int = 0
    last_compaction_duration_time_in_mills: int = 0


@dataclass(slots=True, kw_only=True)
class SnapshotStats(Model):
    """Snapshots of a topic for replicated subscriptions (PIP-33), since it was loaded."""

    pending: int = 0
    """Snapshots in progress: at least one cluster has not answered."""
    completed: int = 0
    timed_out: int = 0
    """Snapshots that timed out because a cluster did not answer."""
    took_ms: float = 0.0
    """Total duration of the completed snapshots, in milliseconds."""
    age_seconds: float | None = None
    """Time since the start of the newest complete snapshot; null: there is none."""


@dataclass(slots=True, kw_only=True)
class TopicStats(Model):
    """One topic; ``storage_size`` is its size on disk, ``backlog_size`` the backlog of the slowest subscription."""

    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    bytes_in_counter: int = 0
    msg_in_counter: int = 0
    system_topic_bytes_in_counter: int = 0
    bytes_out_counter: int = 0
    msg_out_counter: int = 0
    bytes_out_internal_counter: int = 0
    average_msg_size: float = 0.0
    msg_chunk_published: bool = False
    storage_size: int = 0
    backlog_size: int = 0
    backlog_quota_limit_size: int = -1
    backlog_quota_limit_time: int = -1
    oldest_backlog_message_age_seconds: int = -1
    oldest_backlog_message_subscription_name: str | None = None
    publish_rate_limited_times: int = 0
    earliest_msg_publish_time_in_backlogs: int = 0
    offloaded_storage_size: int = 0
    last_offload_ledger_id: int = 0
    last_offload_success_time_stamp: int = 0
    last_offload_failure_time_stamp: int = 0
    ongoing_txn_count: int = 0
    aborted_txn_count: int = 0
    committed_txn_count: int = 0
    publishers: list[PublisherStats] = field(default_factory=list)
    publishers_count: int = field(default=0, metadata=NOT_SHOWN)
    """Number of producers, also if ``publishers`` is omitted."""
    waiting_publishers: int = 0
    at_risk_messages: int | None = None
    """Ours. Receipted entries that too few other clusters have; None: no policy limits them."""

    withheld_receipts: int | None = None
    """Ours. Receipts withheld until fewer entries are at risk; None: no policy limits them."""

    publishing_throttled: str | None = None
    """Ours. Reason why receipts are withheld."""

    migration_fence: SetFence | None = None
    """Ours. The fence that keeps clients away while a migration moves them."""

    clusters_not_counted: list[str] | None = None
    """Ours. Clusters that the policy does not wait for any longer; if these are all, nothing is limited."""

    subscriptions: dict[str, SubscriptionStats] = field(default_factory=dict)
    replication: dict[str, ReplicatorStats] = field(default_factory=dict)
    deduplication_status: str = "Disabled"
    deduplicated_entries: int | None = None
    """Ours. Duplicates that were not stored since the topic was loaded; None: deduplication is off."""

    deduplication_producers: int | None = None
    """Ours. Number of producers with known sequence ids; None: deduplication is off."""

    topic_epoch: int | None = None
    non_contiguous_deleted_messages_ranges: int = 0
    non_contiguous_deleted_messages_ranges_serialized_size: int = 0
    delayed_message_index_size_in_bytes: int = 0
    compaction: CompactionStats = field(default_factory=CompactionStats)
    damaged_entries: int | None = None
    """Ours. Damaged entries found on the disk since the topic was loaded."""
    replicated_subscription_snapshots: SnapshotStats | None = None
    """Ours. None: no subscription and no other cluster needs snapshots."""
    owner_broker: str | None = None
    log: LedgerStatistics = field(default_factory=LedgerStatistics, metadata=NOT_SHOWN)
    """Statistics of the topic's log."""


@dataclass(slots=True, kw_only=True)
class NonPersistentTopicStats(TopicStats):
    """One non-persistent topic."""

    msg_drop_rate: float = 0.0


@dataclass(slots=True, kw_only=True)
class MessageId(Model):
    """A message id; ``partition_index`` and ``batch_index`` are -1 if there is none."""

    ledger_id: int
    entry_id: int
    partition_index: int = -1
    batch_size: int = 0
    batch_index: int = -1

    @classmethod
    def of(cls, position: Position, topic: TopicName) -> Self:
        """Return the id of the entry at ``position`` of ``topic``."""
        return cls(ledger_id=position.ledger_id, entry_id=position.entry_id, partition_index=topic.partition_index)
