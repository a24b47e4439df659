"""``/metrics``: statistics as Prometheus text, under Pulsar's names and labels.

Only what the broker measures is exposed: a metric of Pulsar's that is missing here is unknown, not zero. As in
Pulsar all are gauges, also the ones that only grow.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from magnetar.admin.models import ReplicatorStats, SubscriptionStats, TopicStats
    from magnetar.admin.service import AdminService

    Labels = tuple[str, ...]

Stats = TypeVar("Stats")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TOPIC_LABELS = ("cluster", "namespace", "topic")
_SUBSCRIPTION_LABELS = (*_TOPIC_LABELS, "subscription")
_REPLICATION_LABELS = (*_TOPIC_LABELS, "remote_cluster")
_PROGRESS_LABELS = (*_SUBSCRIPTION_LABELS, "remote_cluster")


def _backlog(stats: TopicStats) -> int:
    return sum(subscription.msg_backlog for subscription in stats.subscriptions.values())


def _consumers(stats: TopicStats) -> int:
    return sum(len(subscription.consumers) for subscription in stats.subscriptions.values())


_TOTALLED: Mapping[str, Callable[[TopicStats], float]] = {
    "subscriptions_count": lambda stats: len(stats.subscriptions),
    "producers_count": lambda stats: len(stats.publishers),
    "consumers_count": _consumers,
    "rate_in": attrgetter("msg_rate_in"),
    "rate_out": attrgetter("msg_rate_out"),
    "throughput_in": attrgetter("msg_throughput_in"),
    "throughput_out": attrgetter("msg_throughput_out"),
    "msg_backlog": _backlog,
    "storage_size": attrgetter("storage_size"),
    "storage_logical_size": attrgetter("storage_size"),
    "storage_backlog_size": attrgetter("backlog_size"),
}
"""Of each topic, ``pulsar_…``, and summed over the broker, ``pulsar_broker_…``."""

_TOPIC: Mapping[str, Callable[[TopicStats], float]] = {
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

_SUBSCRIPTION: Mapping[str, Callable[[SubscriptionStats], float]] = {
    "out_bytes_total": attrgetter("bytes_out_counter"),
    "out_messages_total": attrgetter("msg_out_counter"),
    "subscription_back_log": attrgetter("msg_backlog"),
    "subscription_back_log_no_delayed": attrgetter("msg_backlog_no_delayed"),
    "subscription_blocked_on_unacked_messages": attrgetter("blocked_subscription_on_unacked_msgs"),
    "subscription_consumers_count": lambda stats: len(stats.consumers),
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

_ACK_STATE: Mapping[str, tuple[str, Callable[[SubscriptionStats], float]]] = {
    "ack_ranges": (
        "Ranges of individually acknowledged entries",
        attrgetter("non_contiguous_deleted_messages_ranges"),
    ),
    "ack_state_used_ratio": (
        "Share of the limits of persisted acknowledgement state that is used",
        attrgetter("ack_state_used"),
    ),
    "ack_state_blocked": (
        "Whether dispatch is paused because more acknowledgement state could not be persisted",
        attrgetter("is_blocked_on_ack_state_persistent"),
    ),
    "unpersisted_acks": (
        "Acknowledged entries beyond the limit of what is persisted, which come again after a crash",
        attrgetter("unpersisted_acks"),
    ),
}
"""Of each subscription, ours: ``magnetar_subscription_…``."""

_PROGRESS: Mapping[str, tuple[str, Callable[[SubscriptionStats], Mapping[str, float | None] | None]]] = {
    "age_seconds": (
        "Age of the oldest acknowledgement that the remote cluster has not confirmed; 0 when it has them all",
        attrgetter("progress_age_seconds"),
    ),
    "unconfirmed_entries": (
        "Entries acknowledged here that the remote cluster has not confirmed",
        attrgetter("progress_unconfirmed"),
    ),
    "lost_entries": (
        "Entries that the remote cluster published and lost with its data, held here and not acknowledged",
        attrgetter("progress_lost"),
    ),
}
"""Of each replicated subscription and remote cluster, ours: ``magnetar_progress_…``; no sample while it is unknown."""

_LAG_BOUND: Mapping[str, tuple[str, Callable[[TopicStats], float | None]]] = {
    "at_risk_messages": (
        "Entries published here that too few other clusters have, where a policy bounds that",
        attrgetter("at_risk_messages"),
    ),
    "withheld_receipts": ("Receipts that wait until less is at risk", attrgetter("withheld_receipts")),
    "publishing_throttled": (
        "Whether publishing is slowed down because too much is at risk",
        lambda stats: stats.publishing_throttled is not None,
    ),
}
"""Of each topic where a policy bounds what is at risk, ours."""

_REPLICATION: Mapping[str, Callable[[ReplicatorStats], float | None]] = {
    "replication_backlog": attrgetter("replication_backlog"),
    "replication_connected_count": lambda stats: stats.connected,
    "replication_delay_in_seconds": attrgetter("replication_delay_in_seconds"),
    "replication_disconnected_count": lambda stats: not stats.connected,
    "replication_rate_expired": attrgetter("msg_rate_expired"),
    "replication_rate_in": attrgetter("msg_rate_in"),
    "replication_rate_out": attrgetter("msg_rate_out"),
    "replication_throughput_in": attrgetter("msg_throughput_in"),
    "replication_throughput_out": attrgetter("msg_throughput_out"),
}


_STORAGE = {
    "magnetar_storage_failed": "1 when a write or sync has failed: nothing is confirmed until the broker is restarted",
    "magnetar_storage_full": "1 while publishing is paused because the disk is full",
}


def exposition(service: AdminService) -> bytes:
    """The metrics of every open topic and of the broker, as Prometheus text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(service))
    return generate_latest(registry)


class _Snapshot:
    """The statistics of one moment, as a collector of prometheus_client."""

    def __init__(self, service: AdminService) -> None:
        self._cluster = service.cluster_name
        self._storage = service.storage_refuses()
        self._unloadable = service.load_failures()
        self._limit_hits = service.limit_hits()
        self._memory = service.memory()
        found = service.all_topic_stats().items()
        self._topics = [((self._cluster, str(name.namespace_name), str(name)), stats) for name, stats in found]

    def collect(self) -> Iterator[Metric]:
        yield from self._broker()
        yield from _gauges({**_TOTALLED, **_TOPIC}, _TOPIC_LABELS, self._topics)
        yield from self._deduplication()
        yield from self._snapshots()
        yield from self._lag_bound()
        subscriptions = [
            ((*labels, name), subscription)
            for labels, stats in self._topics
            for name, subscription in stats.subscriptions.items()
        ]
        yield from _gauges(_SUBSCRIPTION, _SUBSCRIPTION_LABELS, subscriptions)
        yield from self._replication()
        damaged = GaugeMetricFamily(
            "magnetar_damaged_entries",
            "Entries that were found damaged on the disk; nobody is sent them, and they stay unacknowledged",
            labels=_TOPIC_LABELS,
        )
        for topic, stats in self._topics:
            damaged.add_metric(topic, stats.damaged_entries or 0)
        yield damaged
        unloadable = GaugeMetricFamily(
            "magnetar_topic_load_failed",
            "1 for each topic that could not be loaded; its stats name the reason",
            labels=_TOPIC_LABELS,
        )
        for failed in sorted(self._unloadable):
            unloadable.add_metric((self._cluster, str(failed.namespace_name), str(failed)), 1)
        yield unloadable
        for name, (documentation, value_of) in _ACK_STATE.items():
            family = GaugeMetricFamily(f"magnetar_subscription_{name}", documentation, labels=_SUBSCRIPTION_LABELS)
            for labels, subscription in subscriptions:
                family.add_metric(labels, value_of(subscription))
            yield family
        for name, (documentation, progress_of) in _PROGRESS.items():
            family = GaugeMetricFamily(f"magnetar_progress_{name}", documentation, labels=_PROGRESS_LABELS)
            for labels, subscription in subscriptions:
                for remote, value in (progress_of(subscription) or {}).items():
                    if value is not None:  # unknown is no number
                        family.add_metric((*labels, remote), value)
            yield family

    def _replication(self) -> Iterator[Metric]:
        """Of each topic and remote cluster."""
        links = [
            ((*labels, remote), replicator)
            for labels, stats in self._topics
            for remote, replicator in stats.replication.items()
        ]
        yield from _gauges(_REPLICATION, _REPLICATION_LABELS, links)
        handovers = CounterMetricFamily(
            "magnetar_replication_handovers",
            "How often a link's replication passed from one lease to the next",
            labels=_REPLICATION_LABELS,
        )
        for labels, replicator in links:
            handovers.add_metric(labels, replicator.handovers)
        yield handovers
        parked = GaugeMetricFamily(
            "magnetar_replication_parked",
            "Whether the pipeline gave up the link for a while; the topic's stats say why",
            labels=_REPLICATION_LABELS,
        )
        for labels, replicator in links:
            parked.add_metric(labels, replicator.parked_reason is not None)
        yield parked
        skipped = GaugeMetricFamily(
            "magnetar_skipped_entries",
            "Damaged entries that an operator let a link go past",
            labels=_REPLICATION_LABELS,
        )
        for labels, replicator in links:
            skipped.add_metric(labels, replicator.skipped_entries or 0)
        yield skipped

    def _deduplication(self) -> Iterator[Metric]:
        """Of the topics that have deduplication on."""
        dropped = CounterMetricFamily(
            "magnetar_deduplicated_entries",
            "Entries that were there already and were not stored again",
            labels=_TOPIC_LABELS,
        )
        producers = GaugeMetricFamily(
            "magnetar_deduplication_producers", "Producers whose last sequence ids are known", labels=_TOPIC_LABELS
        )
        for labels, stats in self._topics:
            if stats.deduplicated_entries is not None and stats.deduplication_producers is not None:
                dropped.add_metric(labels, stats.deduplicated_entries)
                producers.add_metric(labels, stats.deduplication_producers)
        yield from (dropped, producers)

    def _snapshots(self) -> Iterator[Metric]:
        """Of the whole broker, as in Pulsar."""
        found = [stats.replicated_subscription_snapshots for _, stats in self._topics]
        snapshots = [each for each in found if each is not None]
        name = "pulsar_replicated_subscriptions_{}".format
        pending = GaugeMetricFamily(
            name("pending_snapshots"), "Snapshots for replicated subscriptions that are under way", labels=("cluster",)
        )
        pending.add_metric((self._cluster,), sum(each.pending for each in snapshots))
        timed_out = CounterMetricFamily(
            name("timedout_snapshots"), "Snapshots given up because a cluster did not answer", labels=("cluster",)
        )
        timed_out.add_metric((self._cluster,), sum(each.timed_out for each in snapshots))
        took = SummaryMetricFamily(
            name("snapshot_ms"), "Milliseconds that complete snapshots took", labels=("cluster",)
        )
        completed = sum(each.completed for each in snapshots)
        took.add_metric((self._cluster,), completed, sum(each.took_ms for each in snapshots))
        yield from (pending, timed_out, took)

    def _lag_bound(self) -> Iterator[Metric]:
        """Of the topics where a policy bounds what is at risk."""
        for name, (documentation, value_of) in _LAG_BOUND.items():
            family = GaugeMetricFamily(f"magnetar_{name}", documentation, labels=_TOPIC_LABELS)
            for labels, stats in self._topics:
                value = value_of(stats)
                if stats.withheld_receipts is not None and value is not None:
                    family.add_metric(labels, value)
            yield family

    def _broker(self) -> Iterator[Metric]:
        topics = GaugeMetricFamily("pulsar_broker_topics_count", "", labels=("cluster",))
        topics.add_metric((self._cluster,), len(self._topics))
        yield topics
        for name, value_of in _TOTALLED.items():
            total = GaugeMetricFamily(f"pulsar_broker_{name}", "", labels=("cluster",))
            total.add_metric((self._cluster,), sum(value_of(stats) for _, stats in self._topics))
            yield total
        for name, text, is_so in zip(_STORAGE, _STORAGE.values(), self._storage, strict=True):
            storage = GaugeMetricFamily(name, text, labels=("cluster",))
            storage.add_metric((self._cluster,), is_so)
            yield storage
        hits = CounterMetricFamily(
            "magnetar_limit_hits",
            "How often a limit was hit since the start of the broker",
            labels=("cluster", "limit"),
        )
        for limit, count in self._limit_hits.items():
            hits.add_metric((self._cluster, limit), count)
        yield hits
        held = GaugeMetricFamily(
            "magnetar_memory_bytes",
            "Memory that is held, by share of memoryLimitMB; total is the resident memory of the process",
            labels=("cluster", "share"),
        )
        allowed = GaugeMetricFamily(
            "magnetar_memory_limit_bytes", "Memory that each share may hold", labels=("cluster", "share")
        )
        for share, (used, most) in self._memory.items():
            held.add_metric((self._cluster, share), used)
            allowed.add_metric((self._cluster, share), most)
        yield from (held, allowed)
        per_namespace = GaugeMetricFamily("pulsar_topics_count", "", labels=("cluster", "namespace"))
        for namespace, count in Counter(namespace for (_, namespace, _), _ in self._topics).items():
            per_namespace.add_metric((self._cluster, namespace), count)
        yield per_namespace


def _gauges(
    metrics: Mapping[str, Callable[[Stats], float | None]], names: Labels, found: Iterable[tuple[Labels, Stats]]
) -> Iterator[Metric]:
    """One family per metric, one sample per set of labels; none for a value that is not known."""
    for name, value_of in metrics.items():
        family = GaugeMetricFamily(f"pulsar_{name}", "", labels=names)
        for labels, stats in found:
            value = value_of(stats)
            if value is not None:
                family.add_metric(labels, value)
        yield family
