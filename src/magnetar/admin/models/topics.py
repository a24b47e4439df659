"""Statistics of topics and their links."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from magnetar.admin.models.clients import PublisherStats
    from magnetar.admin.models.subscriptions import SubscriptionStats
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
from magnetar.admin.models.model import NOT_SHOWN, Model


@dataclass(slots=True, kw_only=True)
class ReplicatorStats(Model):
    """One remote cluster: "in" is what its replicator publishes here, "out" what is sent there."""

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
    """Entries that the remote cluster does not hold; None while that is not known."""
    connected: bool = False
    replication_delay_in_seconds: int | None = 0
    """None while it is not known what the remote cluster holds."""
    inbound_connection: str | None = None
    inbound_connected_since: str | None = None
    outbound_connection: str | None = None
    outbound_connected_since: str | None = None
    msg_expired_count: int = 0
    handovers: int = 0
    """Ours. How often the link passed from one lease to the next."""
    damaged_at: str | None = None
    """Ours. The damaged entry that the link has stopped at."""
    pipeline: str | None = None
    """Ours. The run of the pipeline that holds the link: host, process and a random part."""
    parked_reason: str | None = None
    """Ours. Why the pipeline gave up the link for a while, as an entry that is too large for the remote cluster."""
    replication_unknown_since: str | None = None
    """Ours. Since when it is not known what the remote cluster holds; None while it is known."""
    replication_backlog_at_least: int | None = None
    """Ours. Entries that the remote cluster has not confirmed, while it is not known what else it lacks."""
    unfilled_through: str | None = None
    """Ours. The newest entry that the remote cluster lost, and that was trimmed here before it could be sent again."""
    skipped_entries: int | None = None
    """Ours. Damaged entries that an operator let the link go past; None: none, or their ledgers were trimmed."""
    skipped_ranges: list[str] | None = None
    """Ours. Which those are, each as ``first..last``, both included."""


@dataclass(slots=True, kw_only=True)
class CompactionStats(Model):
    """Of a topic that is never compacted."""

    last_compaction_removed_event_count: int = 0
    last_compaction_succeed_timestamp: int = 0
    last_compaction_failed_timestamp: int = 0
    last_compaction_duration_time_in_mills: int = 0


@dataclass(slots=True, kw_only=True)
class SnapshotStats(Model):
    """Snapshots that a topic takes for replicated subscriptions (PIP-33), since it began to."""

    pending: int = 0
    """Under way: some cluster has not answered."""
    completed: int = 0
    timed_out: int = 0
    """Given up because some cluster did not answer in time."""
    took_ms: float = 0.0
    """Milliseconds that the completed ones took, added up."""
    age_seconds: float | None = None
    """Since the newest complete one was begun; null: there is none."""


@dataclass(slots=True, kw_only=True)
class TopicStats(Model):
    """One topic; ``storage_size`` is what is on disk, ``backlog_size`` what the slowest subscription still needs."""

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
    """Also where ``publishers`` are left out."""
    waiting_publishers: int = 0
    at_risk_messages: int | None = None
    """Ours. Entries published here that too few other clusters have; None: no policy bounds them."""

    withheld_receipts: int | None = None
    """Ours. Receipts that wait until less is at risk; None likewise."""

    publishing_throttled: str | None = None
    """Ours. Why publishing is slowed down for that."""

    clusters_not_counted: list[str] | None = None
    """Ours. Clusters that have been absent for longer than the policy waits; where it is all, nothing is bounded."""

    subscriptions: dict[str, SubscriptionStats] = field(default_factory=dict)
    replication: dict[str, ReplicatorStats] = field(default_factory=dict)
    deduplication_status: str = "Disabled"
    deduplicated_entries: int | None = None
    """Ours. Entries that were there already and were not stored again, since the topic was loaded; None: it is off."""

    deduplication_producers: int | None = None
    """Ours. Producers whose last sequence ids are known; None: deduplication is off."""

    topic_epoch: int | None = None
    non_contiguous_deleted_messages_ranges: int = 0
    non_contiguous_deleted_messages_ranges_serialized_size: int = 0
    delayed_message_index_size_in_bytes: int = 0
    compaction: CompactionStats = field(default_factory=CompactionStats)
    damaged_entries: int | None = None
    """Ours. Entries that were found damaged on the disk since the topic was loaded."""
    replicated_subscription_snapshots: SnapshotStats | None = None
    """Ours. None: no subscription and no other cluster needs any."""
    owner_broker: str | None = None


@dataclass(slots=True, kw_only=True)
class MessageId(Model):
    """A position as clients see it; ``partition_index`` and ``batch_index`` are -1 where there is none."""

    ledger_id: int
    entry_id: int
    partition_index: int = -1
    batch_size: int = 0
    batch_index: int = -1

    @classmethod
    def of(cls, position: Position, topic: TopicName) -> Self:
        """The entry at ``position`` of ``topic``."""
        return cls(ledger_id=position.ledger_id, entry_id=position.entry_id, partition_index=topic.partition_index)
