"""Metrics of links: topics and remote clusters."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

from magnetar.admin.metrics.table import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.admin.models.topics import ReplicatorStats

HANDOVERS: Metric[ReplicatorStats] = Metric(
    "magnetar_replication_handovers_total",
    "handovers",
    "Hand-overs of a link from one lease to the next",
    kind="counter",
)

LINK: Sequence[Metric[ReplicatorStats]] = [
    Metric(
        "pulsar_replication_backlog",
        "replication_backlog",
        "Entries that the remote cluster does not hold",
        add,
        is_unknown_if_any_is=True,
    ),
    Metric(
        "pulsar_replication_connected_count",
        lambda stats: int(stats.connected),
        "Whether the pipeline is connected to send entries to the remote cluster",
        add,
    ),
    Metric(
        "pulsar_replication_delay_in_seconds",
        "replication_delay_in_seconds",
        "Age of the oldest entry that the remote cluster does not hold",
        max,
        is_unknown_if_any_is=True,
    ),
    Metric(
        "pulsar_replication_disconnected_count",
        lambda stats: int(not stats.connected),
        "Whether nothing is connected to send entries to the remote cluster",
        add,
    ),
    Metric("pulsar_replication_rate_expired", "msg_rate_expired", "Links expire no entries: 0", add),
    Metric(
        "pulsar_replication_rate_in",
        "msg_rate_in",
        "Messages per second that arrive from the remote cluster",
        add,
    ),
    Metric(
        "pulsar_replication_rate_out",
        "msg_rate_out",
        "Entries per second that are sent to the remote cluster",
        add,
    ),
    Metric(
        "pulsar_replication_throughput_in",
        "msg_throughput_in",
        "Bytes per second that arrive from the remote cluster",
        add,
    ),
    Metric(
        "pulsar_replication_throughput_out",
        "msg_throughput_out",
        "Bytes per second that are sent to the remote cluster",
        add,
    ),
    HANDOVERS,
    Metric(
        "magnetar_replication_parked",
        lambda stats: int(stats.parked_reason is not None),
        "Whether the pipeline has parked the link; the topic's stats state the reason",
        add,
    ),
    Metric(
        "magnetar_skipped_entries",
        lambda stats: stats.skipped_entries or 0,
        "Damaged entries that a link skipped by request of an operator",
        add,
    ),
]
"""Values of each topic and remote cluster."""
