"""Metrics of subscriptions, and of the progress of replicated subscriptions in other clusters."""

from __future__ import annotations

from operator import add, attrgetter
from typing import TYPE_CHECKING, TypeVar

from magnetar.admin.metrics.table import Metric
from magnetar.admin.models.subscriptions import NonPersistentSubscriptionStats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.admin.models.subscriptions import SubscriptionStats

Stats = TypeVar("Stats")

Progress = tuple["SubscriptionStats", str]
"""A replicated subscription and a remote cluster."""


def flag(attribute: str) -> Callable[[Stats], int]:
    """Read a truth value as 1 or 0."""
    read = attrgetter(attribute)
    return lambda stats: int(read(stats))


def time_ms(attribute: str) -> Callable[[Stats], int | None]:
    """Read a time in milliseconds since the epoch; no sample if it is unknown."""
    read = attrgetter(attribute)
    return lambda stats: read(stats) or None


SUBSCRIPTION: Sequence[Metric[SubscriptionStats]] = [
    Metric("pulsar_out_bytes_total", "bytes_out_counter", "Sent bytes since the topic was loaded", add),
    Metric("pulsar_out_messages_total", "msg_out_counter", "Sent messages since the topic was loaded", add),
    Metric("pulsar_subscription_back_log", "msg_backlog", "Unacknowledged entries", add),
    Metric(
        "pulsar_subscription_back_log_no_delayed",
        "msg_backlog_no_delayed",
        "Unacknowledged entries that are not delayed",
        add,
    ),
    Metric(
        "pulsar_subscription_blocked_on_unacked_messages",
        flag("blocked_subscription_on_unacked_msgs"),
        "Whether dispatch waits for acknowledgements",
    ),
    Metric("pulsar_subscription_consumers_count", "consumers_count", "Connected consumers"),
    Metric(
        "pulsar_subscription_msg_drop_rate",
        lambda stats: stats.msg_drop_rate if isinstance(stats, NonPersistentSubscriptionStats) else None,
        "Messages per second of a non-persistent topic that no consumer could take",
        add,
    ),
    Metric("pulsar_subscription_delayed", "msg_delayed", "Delayed entries", add),
    Metric("pulsar_subscription_in_replay", "msg_in_replay", "Entries that were read and wait to be sent", add),
    Metric(
        "pulsar_subscription_last_acked_timestamp",
        time_ms("last_acked_timestamp"),
        "Time of the last acknowledgement, in milliseconds since the epoch",
    ),
    Metric(
        "pulsar_subscription_last_consumed_flow_timestamp",
        time_ms("last_consumed_flow_timestamp"),
        "Time of the last FLOW command, in milliseconds since the epoch",
    ),
    Metric(
        "pulsar_subscription_last_consumed_timestamp",
        time_ms("last_consumed_timestamp"),
        "Time of the last sent message, in milliseconds since the epoch",
    ),
    Metric(
        "pulsar_subscription_last_expire_timestamp",
        time_ms("last_expire_timestamp"),
        "Time of the last expiry, in milliseconds since the epoch",
    ),
    Metric(
        "pulsar_subscription_last_mark_delete_advanced_timestamp",
        time_ms("last_mark_delete_advanced_timestamp"),
        "Time of the last advance of the mark-delete position, in milliseconds since the epoch",
    ),
    Metric(
        "pulsar_subscription_msg_ack_rate",
        "message_ack_rate",
        "Messages per second that consumers acknowledged",
        add,
    ),
    Metric("pulsar_subscription_msg_rate_expired", "msg_rate_expired", "Expired entries per second", add),
    Metric("pulsar_subscription_msg_rate_out", "msg_rate_out", "Sent messages per second", add),
    Metric(
        "pulsar_subscription_msg_rate_redeliver",
        "msg_rate_redeliver",
        "Redelivered messages per second",
        add,
    ),
    Metric("pulsar_subscription_msg_throughput_out", "msg_throughput_out", "Sent bytes per second", add),
    Metric(
        "pulsar_subscription_total_msg_expired",
        "total_msg_expired",
        "Expired entries since the topic was loaded",
        add,
    ),
    Metric(
        "pulsar_subscription_unacked_messages",
        "unacked_messages",
        "Messages sent and not acknowledged",
        add,
    ),
    Metric(
        "magnetar_subscription_ack_ranges",
        "non_contiguous_deleted_messages_ranges",
        "Ranges of individually acknowledged entries",
        add,
    ),
    Metric(
        "magnetar_subscription_ack_state_used_ratio",
        "ack_state_used",
        "Used share of the limit of persisted acknowledgement state",
        max,
    ),
    Metric(
        "magnetar_subscription_ack_state_blocked",
        flag("is_blocked_on_ack_state_persistent"),
        "Whether dispatch is paused because further acknowledgement state could not be persisted",
        max,
    ),
    Metric(
        "magnetar_subscription_unpersisted_acks",
        "unpersisted_acks",
        "Acknowledged entries beyond the limit of persisted state, which a crash would redeliver",
        add,
    ),
]
"""Values of each subscription."""

PROGRESS: Sequence[Metric[Progress]] = [
    Metric(
        "magnetar_progress_age_seconds",
        lambda of: (of[0].progress_age_seconds or {}).get(of[1]),
        "Age of the oldest acknowledgement that the remote cluster has not confirmed; 0: all are confirmed",
        max,
        is_unknown_if_any_is=True,
    ),
    Metric(
        "magnetar_progress_unconfirmed_entries",
        lambda of: (of[0].progress_unconfirmed or {}).get(of[1]),
        "Entries acknowledged here that the remote cluster has not confirmed",
        add,
        is_unknown_if_any_is=True,
    ),
    Metric(
        "magnetar_progress_lost_entries",
        lambda of: (of[0].progress_lost or {}).get(of[1]),
        "Unacknowledged entries, held here, that the remote cluster published and lost with its data",
        add,
        is_unknown_if_any_is=True,
    ),
]
"""Values of each replicated subscription and remote cluster; no sample while a value is unknown."""
