"""Statistics of subscriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.admin.models.model import NOT_SHOWN, Model

if TYPE_CHECKING:
    from magnetar.admin.models.clients import ConsumerStats


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
    consumers_count: int = field(default=0, metadata=NOT_SHOWN)
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
