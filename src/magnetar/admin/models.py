"""What a broker tells about its topics; every field starts with the value that Apache Pulsar shows when idle.

A field ``msg_rate_in`` is ``msgRateIn`` in JSON; one that is None is left out. Rates are per second, sizes bytes,
``…_timestamp`` milliseconds since the epoch (0: never), ``…_since`` ISO 8601 (see ``iso_time``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.position import EARLIEST, Position

if TYPE_CHECKING:
    from magnetar.base.names import TopicName


def iso_time(timestamp_ms: float) -> str:
    """The moment, milliseconds since the epoch, as Pulsar writes it."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def _json_name(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


def to_json(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a value as JSON has it."""
    match value:
        case Model():
            return value.to_json()
        case Position():
            return str(value)
        case list():
            return [to_json(each) for each in value]
        case dict():
            return {key: to_json(each) for key, each in value.items()}
        case _:
            return value


_NOT_SHOWN = {"json": False}
"""Metadata of a field that is no part of the JSON object."""


@dataclass(slots=True, kw_only=True)
class Model:
    """Something that is answered as a JSON object."""

    def to_json(self) -> dict[str, Any]:
        """The object in Pulsar's field names."""
        return {name: to_json(value) for name, value in self.members().items()}

    def members(self) -> dict[str, Any]:
        """The members of the object in Pulsar's field names, with their values as they are here."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self) if each.metadata != _NOT_SHOWN)
        return {_json_name(name): value for name, value in values if value is not None} | self._derived()

    def _derived(self) -> dict[str, Any]:
        """JSON fields that follow from the others."""
        return {}


@dataclass(slots=True, kw_only=True)
class PublisherStats(Model):
    """One producer."""

    access_mode: str = "Shared"
    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    average_msg_size: float = 0.0
    chunked_message_rate: float = 0.0
    producer_id: int = 0
    supports_partial_producer: bool = False
    producer_name: str | None = None
    address: str | None = None
    connected_since: str | None = None
    client_version: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class DrainingHash(Model):
    """A hash of keys that is not sent to its new consumer before the old one has acknowledged what it holds of it."""

    hash: int
    unack_msgs: int
    blocked_attempts: int


@dataclass(slots=True, kw_only=True)
class ConsumerStats(Model):
    """One consumer of a subscription."""

    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    bytes_out_counter: int = 0
    msg_out_counter: int = 0
    msg_rate_redeliver: float = 0.0
    message_ack_rate: float = 0.0
    chunked_message_rate: float = 0.0
    consumer_name: str | None = None
    available_permits: int = 0
    unacked_messages: int = 0
    avg_messages_per_entry: int = 0
    blocked_consumer_on_unacked_msgs: bool = False
    draining_hashes_count: int = 0
    draining_hashes_cleared_total: int = 0
    draining_hashes_unacked_messages: int = 0
    draining_hashes: list[DrainingHash] | None = None
    """Of a Key_Shared subscription: the hashes of which it holds messages, and that belong to others by now."""
    address: str | None = None
    connected_since: str | None = None
    client_version: str | None = None
    last_acked_timestamp: int = 0
    last_consumed_timestamp: int = 0
    last_consumed_flow_timestamp: int = 0
    key_hash_range_arrays: list[list[int]] | None = None
    """Of a Key_Shared subscription: the hashes of the keys that it gets, ranges with both their ends."""
    metadata: dict[str, str] = field(default_factory=dict)

    def _derived(self) -> dict[str, Any]:
        return {
            "lastAckedTime": iso_time(self.last_acked_timestamp),
            "lastConsumedTime": iso_time(self.last_consumed_timestamp),
        }


@dataclass(slots=True, kw_only=True)
class AckHole(Model):
    """Ours. Entries that are not acknowledged below some that are, such as ``(1:2..1:4]``."""

    entries: str
    consumers: list[str] = field(default_factory=list)
    """Those that hold some of them, by name; none for what waits to be sent."""


@dataclass(slots=True, kw_only=True)
class SubscriptionStats(Model):
    """One subscription; ``msg_backlog`` counts messages (entries where the broker cannot look inside)."""

    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    bytes_out_counter: int = 0
    msg_out_counter: int = 0
    msg_rate_redeliver: float = 0.0
    message_ack_rate: float = 0.0
    chunked_message_rate: float = 0.0
    msg_backlog: int = 0
    backlog_size: int = 0
    earliest_msg_publish_time_in_backlog: int = 0
    msg_backlog_no_delayed: int = 0
    blocked_subscription_on_unacked_msgs: bool = False
    msg_delayed: int = 0
    msg_in_replay: int = 0
    unacked_messages: int = 0
    type: str = "None"
    active_consumer_name: str | None = None
    msg_rate_expired: float = 0.0
    total_msg_expired: int = 0
    last_expire_timestamp: int = 0
    last_consumed_flow_timestamp: int = 0
    last_consumed_timestamp: int = 0
    last_acked_timestamp: int = 0
    last_mark_delete_advanced_timestamp: int = 0
    consumers: list[ConsumerStats] = field(default_factory=list)
    consumers_count: int = field(default=0, metadata=_NOT_SHOWN)
    """Also where ``consumers`` are left out."""
    is_durable: bool = True
    is_replicated: bool = False
    allow_out_of_order_delivery: bool = False
    key_shared_mode: str | None = None
    consumers_after_mark_delete_position: dict[str, str] = field(default_factory=dict)
    draining_hashes_count: int = 0
    draining_hashes_cleared_total: int = 0
    draining_hashes_unacked_messages: int = 0
    non_contiguous_deleted_messages_ranges: int = 0
    non_contiguous_deleted_messages_ranges_serialized_size: int = 0
    delayed_message_index_size_in_bytes: int = 0
    subscription_properties: dict[str, str] = field(default_factory=dict)
    filter_processed_msg_count: int = 0
    filter_accepted_msg_count: int = 0
    filter_rejected_msg_count: int = 0
    filter_rescheduled_msg_count: int = 0
    dispatch_throttled_msg_events_by_subscription_limit: int = 0
    dispatch_throttled_bytes_events_by_subscription_limit: int = 0
    dispatch_throttled_msg_events_by_topic_limit: int = 0
    dispatch_throttled_bytes_events_by_topic_limit: int = 0
    dispatch_throttled_msg_events_by_broker_limit: int = 0
    dispatch_throttled_bytes_events_by_broker_limit: int = 0
    is_blocked_on_ack_state_persistent: bool = False
    """Ours, of PIP-299. Whether nothing new is sent because more acknowledgement state could not be persisted."""

    ack_state_used: float = 0.0
    """Ours. The share of the limits of persisted acknowledgement state that is used; 1.0 is all."""

    unpersisted_acks: int = 0
    """Ours. Acknowledged entries beyond the limit of what is persisted: exactly these come again after a crash."""

    unpersisted_batch_acks: int = 0
    """Ours. Batches of which more is acknowledged than is persisted, for the same reason."""

    oldest_holes: list[AckHole] | None = None
    """Ours. The first of the entries that are not acknowledged below acknowledged ones, and who holds them."""

    progress_age_seconds: dict[str, float | None] | None = None
    """Ours. Of a replicated subscription, per remote cluster: how old the oldest acknowledgement is that it has
    not confirmed (0.0: it has them all; null: that is not known)."""

    progress_unconfirmed: dict[str, int | None] | None = None
    """Ours. The same in entries: how many were acknowledged here that it has not confirmed. A batch that is
    acknowledged in part, and a seek, have an age and count for none."""

    progress_lost: dict[str, int | None] | None = None
    """Ours. Of a replicated subscription, per remote cluster: entries that the cluster published before it lost its
    data, held here and not acknowledged, until they are sent back. None: it is not known in which life it is."""

    progress_unavailable: dict[str, str] | None = None
    """Ours. Of a replicated subscription, the remote clusters that cannot have exact progress, as Apache Pulsar's
    cannot: why, and what applies instead."""

    progress_applied: dict[str, dict[str, float]] | None = None
    """Ours. Of a replicated subscription, per source cluster: how many progress messages took effect here, and the
    delays between acknowledgement there and effect here, in ms: ``{"count", "p50", "p99", "max"}``."""

    def _derived(self) -> dict[str, Any]:
        return {"durable": self.is_durable, "replicated": self.is_replicated}


@dataclass(slots=True, kw_only=True)
class ClusterProtection(Model):
    """Ours. How well off a subscription is towards one other cluster."""

    status: str
    """``protected``, ``at risk`` or ``unprotected``."""
    since: str
    since_at_least: bool = False
    """Whether it may have been so for longer: what was before the broker started is not known."""
    reasons: list[str] = field(default_factory=list)
    unconfirmed_acknowledgements: int | None = None
    """Entries acknowledged here that the cluster has not confirmed; None: that is not known."""
    unreplicated_messages: int | None = None
    """Entries published here that the cluster has not confirmed."""
    lost_messages: int | None = None
    """Entries that the cluster published before it lost its data, and that this cluster holds and the subscription has
    not acknowledged, until they are sent back. None while it is not known in which life the cluster is."""


@dataclass(slots=True, kw_only=True)
class SubscriptionProtection(Model):
    """Ours. How well off a subscription is: as towards the cluster that it is worst off towards."""

    status: str
    since: str
    since_at_least: bool = False
    reasons: list[str] = field(default_factory=list)
    clusters: dict[str, ClusterProtection] = field(default_factory=dict)


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
    publishers_count: int = field(default=0, metadata=_NOT_SHOWN)
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
class LedgerInfo(Model):
    """One ledger of a topic; Pulsar shows 0 entries and 0 bytes for the one that is being written."""

    ledger_id: int = -1
    entries: int = -1
    size: int = -1
    offloaded: bool = False
    under_replicated: bool = False


@dataclass(slots=True, kw_only=True)
class CursorStats(Model):
    """One cursor; ``individually_deleted_messages`` in Pulsar's notation, ``[(1:2..1:4],(1:7..1:8]]``."""

    mark_delete_position: Position
    read_position: Position
    waiting_read_op: bool = False
    pending_read_ops: int = 0
    messages_consumed_counter: int = 0
    cursor_ledger: int = -1
    cursor_ledger_last_entry: int = -1
    individually_deleted_messages: str = "[]"
    individually_deleted_messages_omitted: int | None = None
    """Ours. How many further ranges there are than ``individually_deleted_messages`` shows, the highest ones."""

    last_ledger_switch_timestamp: str | None = None
    state: str = "Open"
    active: bool = False
    number_of_entries_since_first_not_acked_message: int = 0
    total_non_contiguous_deleted_messages_range: int = 0
    subscription_have_pending_read: bool = False
    subscription_have_pending_replay_read: bool = False
    properties: dict[str, int] = field(default_factory=dict)
    """Of the cursor of deduplication: the producers of its last snapshot and their sequence ids (PIP-6)."""

    properties_omitted: int | None = None
    """Ours. How many further producers there are than ``properties`` shows."""


@dataclass(slots=True, kw_only=True)
class PersistentTopicInternalStats(Model):
    """A topic's managed ledger."""

    entries_added_counter: int = 0
    number_of_entries: int = 0
    total_size: int = 0
    current_ledger_entries: int = 0
    current_ledger_size: int = 0
    last_ledger_created_timestamp: str | None = None
    waiting_cursors_count: int = 0
    pending_add_entries_count: int = 0
    last_confirmed_entry: Position = EARLIEST
    state: str = "LedgerOpened"
    ledgers: list[LedgerInfo] = field(default_factory=list)
    cursors: dict[str, CursorStats] = field(default_factory=dict)
    schema_ledgers: list[LedgerInfo] = field(default_factory=list)
    compacted_ledger: LedgerInfo = field(default_factory=LedgerInfo)
    may_lack_entries: bool | None = None
    """True after a crash with journalSyncData=false: confirmed entries may be lost. None: none can be."""
    entries_known_lost: int | None = None
    """Entries whose loss is proven; more may be lost. None: unknown, or ``may_lack_entries`` is None."""


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
