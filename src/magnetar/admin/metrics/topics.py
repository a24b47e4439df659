"""Metrics of topics, subscriptions and links, rendered one at a time."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from magnetar.admin.models.subscriptions import SubscriptionStats
    from magnetar.admin.models.topics import ReplicatorStats, TopicStats

Stats = TypeVar("Stats")

CHUNK_LINES = 1000
"""Lines of one chunk of text, about 120 bytes each."""


class Metric(NamedTuple, Generic[Stats]):
    """A metric with one sample for each topic, subscription or link."""

    name: str
    """Exposed name; the name of a counter ends with ``_total``."""
    value_of: Callable[[Stats], float | None]
    """Reads the value; None: no sample."""
    documentation: str = ""
    kind: str = "gauge"


def _pulsars(values: Mapping[str, Callable[[Stats], float | None]]) -> list[Metric[Stats]]:
    """Return metrics of Pulsar, which have no documentation text."""
    return [Metric(f"pulsar_{name}", value_of) for name, value_of in values.items()]


def _bounded(value_of: Callable[[TopicStats], float | None]) -> Callable[[TopicStats], float | None]:
    """Read a value only for topics with a policy that limits the entries at risk."""
    return lambda stats: value_of(stats) if stats.withheld_receipts is not None else None


TOTALLED: Mapping[str, Callable[[TopicStats], float]] = {
    "subscriptions_count": lambda stats: len(stats.subscriptions),
    "producers_count": attrgetter("publishers_count"),
    "consumers_count": lambda stats: sum(each.consumers_count for each in stats.subscriptions.values()),
    "rate_in": attrgetter("msg_rate_in"),
    "rate_out": attrgetter("msg_rate_out"),
    "throughput_in": attrgetter("msg_throughput_in"),
    "throughput_out": attrgetter("msg_throughput_out"),
    "msg_backlog": lambda stats: sum(each.msg_backlog for each in stats.subscriptions.values()),
    "storage_size": attrgetter("storage_size"),
    "storage_logical_size": attrgetter("storage_size"),
    "storage_backlog_size": attrgetter("backlog_size"),
}
"""Values of each topic, ``pulsar_…``, and their sums over the broker, ``pulsar_broker_…``."""

_PULSARS_TOPIC: Mapping[str, Callable[[TopicStats], float | None]] = {
    **TOTALLED,
    "average_msg_size": attrgetter("average_msg_size"),
    "in_bytes_total": attrgetter("bytes_in_counter"),
    "in_messages_total": attrgetter("msg_in_counter"),
    "storage_backlog_age_seconds": attrgetter("oldest_backlog_message_age_seconds"),
    "storage_backlog_quota_limit": attrgetter("backlog_quota_limit_size"),
    "storage_backlog_quota_limit_time": attrgetter("backlog_quota_limit_time"),
    "storage_offloaded_size": attrgetter("offloaded_storage_size"),
    "publish_rate_limit_times": attrgetter("publish_rate_limited_times"),
    "delayed_message_index_size_bytes": attrgetter("delayed_message_index_size_in_bytes"),
}

TOPIC: list[Metric[TopicStats]] = [
    *_pulsars(_PULSARS_TOPIC),
    Metric(
        "magnetar_deduplicated_entries_total",
        attrgetter("deduplicated_entries"),
        "Duplicates that were not stored",
        "counter",
    ),
    Metric(
        "magnetar_deduplication_producers",
        attrgetter("deduplication_producers"),
        "Producers with known sequence ids",
    ),
    Metric(
        "magnetar_at_risk_messages",
        _bounded(attrgetter("at_risk_messages")),
        "Receipted entries that too few other clusters have, for topics with a policy that limits them",
    ),
    Metric(
        "magnetar_withheld_receipts",
        attrgetter("withheld_receipts"),
        "Receipts withheld until fewer entries are at risk",
    ),
    Metric(
        "magnetar_publishing_throttled",
        _bounded(lambda stats: stats.publishing_throttled is not None),
        "Whether receipts are withheld because too many entries are at risk",
    ),
    Metric(
        "magnetar_damaged_entries",
        lambda stats: stats.damaged_entries or 0,
        "Damaged entries found on the disk; they are not dispatched and stay unacknowledged",
    ),
]

_PULSARS_SUBSCRIPTION: Mapping[str, Callable[[SubscriptionStats], float | None]] = {
    "out_bytes_total": attrgetter("bytes_out_counter"),
    "out_messages_total": attrgetter("msg_out_counter"),
    "subscription_back_log": attrgetter("msg_backlog"),
    "subscription_back_log_no_delayed": attrgetter("msg_backlog_no_delayed"),
    "subscription_blocked_on_unacked_messages": attrgetter("blocked_subscription_on_unacked_msgs"),
    "subscription_consumers_count": attrgetter("consumers_count"),
    "subscription_delayed": attrgetter("msg_delayed"),
    "subscription_delayed_message_index_size_bytes": attrgetter("delayed_message_index_size_in_bytes"),
    "subscription_in_replay": attrgetter("msg_in_replay"),
    "subscription_last_acked_timestamp": attrgetter("last_acked_timestamp"),
    "subscription_last_consumed_flow_timestamp": attrgetter("last_consumed_flow_timestamp"),
    "subscription_last_consumed_timestamp": attrgetter("last_consumed_timestamp"),
    "subscription_last_expire_timestamp": attrgetter("last_expire_timestamp"),
    "subscription_last_mark_delete_advanced_timestamp": attrgetter("last_mark_delete_advanced_timestamp"),
    "subscription_msg_ack_rate": attrgetter("message_ack_rate"),
    "subscription_msg_rate_expired": attrgetter("msg_rate_expired"),
    "subscription_msg_rate_out": attrgetter("msg_rate_out"),
    "subscription_msg_rate_redeliver": attrgetter("msg_rate_redeliver"),
    "subscription_msg_throughput_out": attrgetter("msg_throughput_out"),
    "subscription_total_msg_expired": attrgetter("total_msg_expired"),
    "subscription_unacked_messages": attrgetter("unacked_messages"),
}

SUBSCRIPTION: list[Metric[SubscriptionStats]] = [
    *_pulsars(_PULSARS_SUBSCRIPTION),
    Metric(
        "magnetar_subscription_ack_ranges",
        attrgetter("non_contiguous_deleted_messages_ranges"),
        "Ranges of individually acknowledged entries",
    ),
    Metric(
        "magnetar_subscription_ack_state_used_ratio",
        attrgetter("ack_state_used"),
        "Used share of the limit of persisted acknowledgement state",
    ),
    Metric(
        "magnetar_subscription_ack_state_blocked",
        attrgetter("is_blocked_on_ack_state_persistent"),
        "Whether dispatch is paused because further acknowledgement state could not be persisted",
    ),
    Metric(
        "magnetar_subscription_unpersisted_acks",
        attrgetter("unpersisted_acks"),
        "Acknowledged entries beyond the limit of persisted state, which a crash would redeliver",
    ),
]

PROGRESS: list[Metric[tuple[SubscriptionStats, str]]] = [
    Metric(
        "magnetar_progress_age_seconds",
        lambda of: (of[0].progress_age_seconds or {}).get(of[1]),
        "Age of the oldest acknowledgement that the remote cluster has not confirmed; 0: all are confirmed",
    ),
    Metric(
        "magnetar_progress_unconfirmed_entries",
        lambda of: (of[0].progress_unconfirmed or {}).get(of[1]),
        "Entries acknowledged here that the remote cluster has not confirmed",
    ),
    Metric(
        "magnetar_progress_lost_entries",
        lambda of: (of[0].progress_lost or {}).get(of[1]),
        "Unacknowledged entries, held here, that the remote cluster published and lost with its data",
    ),
]
"""Values of each replicated subscription and remote cluster; no sample while a value is unknown."""

_PULSARS_REPLICATION: Mapping[str, Callable[[ReplicatorStats], float | None]] = {
    "replication_backlog": attrgetter("replication_backlog"),
    "replication_connected_count": attrgetter("connected"),
    "replication_delay_in_seconds": attrgetter("replication_delay_in_seconds"),
    "replication_disconnected_count": lambda stats: not stats.connected,
    "replication_rate_expired": attrgetter("msg_rate_expired"),
    "replication_rate_in": attrgetter("msg_rate_in"),
    "replication_rate_out": attrgetter("msg_rate_out"),
    "replication_throughput_in": attrgetter("msg_throughput_in"),
    "replication_throughput_out": attrgetter("msg_throughput_out"),
}

REPLICATION: list[Metric[ReplicatorStats]] = [
    *_pulsars(_PULSARS_REPLICATION),
    Metric(
        "magnetar_replication_handovers_total",
        attrgetter("handovers"),
        "Hand-overs of a link from one lease to the next",
        "counter",
    ),
    Metric(
        "magnetar_replication_parked",
        lambda stats: stats.parked_reason is not None,
        "Whether the pipeline has parked the link; the topic's stats state the reason",
    ),
    Metric(
        "magnetar_skipped_entries",
        lambda stats: stats.skipped_entries or 0,
        "Damaged entries that a link skipped by request of an operator",
    ),
]
"""Values of each topic and remote cluster."""


class TopicMetrics:
    """Samples of all topics as Prometheus text, which requires the samples of a metric to be consecutive."""

    def __init__(self, cluster: str) -> None:
        """No samples."""
        self._cluster = cluster
        self._lines: dict[str, list[str]] = {
            metric.name: [f"# HELP {metric.name} {metric.documentation}\n# TYPE {metric.name} {metric.kind}\n"]
            for metrics in (TOPIC, SUBSCRIPTION, PROGRESS, REPLICATION)
            for metric in metrics
        }

    def add_topic(self, namespace: str, topic: str, stats: TopicStats) -> str:
        """Add a topic with its links; return its labels for ``add_subscription``."""
        labels = f'cluster="{_escaped(self._cluster)}",namespace="{_escaped(namespace)}",topic="{_escaped(topic)}"'
        self._add(TOPIC, labels, stats)
        for remote, link in stats.replication.items():
            self._add(REPLICATION, f'{labels},remote_cluster="{_escaped(remote)}"', link)
        return labels

    def add_subscription(self, topic_labels: str, name: str, stats: SubscriptionStats) -> None:
        """Add a subscription of a topic."""
        labels = f'{topic_labels},subscription="{_escaped(name)}"'
        self._add(SUBSCRIPTION, labels, stats)
        for remote in stats.progress_unconfirmed or ():
            self._add(PROGRESS, f'{labels},remote_cluster="{_escaped(remote)}"', (stats, remote))

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in chunks of at most CHUNK_LINES lines."""
        for lines in self._lines.values():
            for first in range(0, len(lines), CHUNK_LINES):
                yield "".join(lines[first : first + CHUNK_LINES]).encode()

    def _add(self, metrics: list[Metric[Stats]], labels: str, stats: Stats) -> None:
        for name, value_of, _, _ in metrics:
            value = value_of(stats)
            if value is not None:
                self._lines[name].append(f"{name}{{{labels}}} {floatToGoString(value)}\n")  # type: ignore[no-untyped-call]


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
