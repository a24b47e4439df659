"""Statistics of subscriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from magnetar.admin.models.clients import ConsumerStats
from magnetar.admin.models.model import NOT_SHOWN, Model


@dataclass(slots=True, kw_only=True)
class AckHole(Model):
    """Ours. Unacknowledged entries before acknowledged ones, such as ``(1:2..1:4]``."""

    entries: str
    consumers: list[str] = field(default_factory=list)
    """Names of the consumers that hold some of the entries; empty for entries that wait to be sent."""


@dataclass(slots=True, kw_only=True)
class SubscriptionStats(Model):
    """One subscription; ``msg_backlog`` counts messages (entries, if the broker does not know their messages)."""

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
    consumers_count: int = field(default=0, metadata=NOT_SHOWN)
    """Number of consumers, also if ``consumers`` is omitted."""
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
    """Ours (PIP-299). Whether dispatch is paused because further acknowledgement state could not be persisted."""

    ack_state_used: float = 0.0
    """Ours. Used share of the limit of persisted acknowledgement state; 1.0 is all of it."""

    unpersisted_acks: int = 0
    """Ours. Acknowledged entries beyond the limit of persisted state, which a crash would redeliver."""

    unpersisted_batch_acks: int = 0
    """Ours. Batches whose acknowledged members are not all persisted, because of the limit."""

    oldest_holes: list[AckHole] | None = None
    """Ours. Oldest unacknowledged entries before acknowledged ones, and the consumers that hold them."""

    progress_age_seconds: dict[str, float | None] | None = None
    """Ours. Replicated subscriptions, by remote cluster: age in seconds of the oldest acknowledgement that the cluster
    has not confirmed (0.0: all are confirmed; null: unknown)."""

    progress_unconfirmed: dict[str, int | None] | None = None
    """Ours. The same in entries: number of entries acknowledged here that the cluster has not confirmed. A partly
    acknowledged batch and a seek have an age, but do not count as entries."""

    progress_lost: dict[str, int | None] | None = None
    """Ours. Replicated subscriptions, by remote cluster: entries that the cluster published and lost with its data,
    held here, unacknowledged, and not sent back yet. None: the life of the cluster is unknown."""

    progress_unavailable: dict[str, str] | None = None
    """Ours. Replicated subscriptions, by remote cluster that cannot have exact progress, such as Apache Pulsar: the
    reason, and the method used instead."""

    progress_applied: dict[str, dict[str, float]] | None = None
    """Ours. Replicated subscriptions, by source cluster: number of progress messages applied here, and the time from
    the acknowledgement there to its application here, in ms: ``{"count", "p50", "p99", "max"}``."""

    def _derived(self) -> dict[str, Any]:
        return {"durable": self.is_durable, "replicated": self.is_replicated}


@dataclass(slots=True, kw_only=True)
class NonPersistentSubscriptionStats(SubscriptionStats):
    """One subscription of a non-persistent topic."""

    msg_drop_rate: float = 0.0
    msg_drop_count: int = 0
    """Ours. Messages that no consumer could take, since the first consumer of the subscription."""
