"""Metrics of single producers and consumers, which are exposed on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.metrics.table import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.admin.models.clients import ConsumerStats, PublisherStats

CONSUMER: Sequence[Metric[ConsumerStats]] = [
    Metric("pulsar_consumer_available_permits", "available_permits", "Messages that the consumer may get"),
    Metric(
        "pulsar_consumer_blocked_on_unacked_messages",
        lambda stats: int(stats.blocked_consumer_on_unacked_msgs),
        "Whether dispatch to the consumer waits for acknowledgements",
    ),
    Metric("pulsar_consumer_msg_ack_rate", "message_ack_rate", "Acknowledged messages per second"),
    Metric("pulsar_consumer_msg_rate_out", "msg_rate_out", "Sent messages per second"),
    Metric("pulsar_consumer_msg_rate_redeliver", "msg_rate_redeliver", "Redelivered messages per second"),
    Metric("pulsar_consumer_msg_throughput_out", "msg_throughput_out", "Sent bytes per second"),
    Metric("pulsar_consumer_unacked_messages", "unacked_messages", "Messages sent and not acknowledged"),
]
"""Values of each consumer."""

PRODUCER: Sequence[Metric[PublisherStats]] = [
    Metric("pulsar_producer_msg_rate_in", "msg_rate_in", "Published messages per second"),
    Metric("pulsar_producer_msg_throughput_in", "msg_throughput_in", "Published bytes per second"),
    Metric("pulsar_producer_msg_average_Size", "average_msg_size", "Average bytes of a published message"),
]
"""Values of each producer."""
