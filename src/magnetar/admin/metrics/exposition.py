"""``/metrics``: statistics as Prometheus text, with Pulsar's names and labels.

Only measured values are exposed: a metric of Pulsar that is missing here is unknown, not zero. As in Pulsar, all
metrics are gauges, including those that only grow.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.utils import floatToGoString

from magnetar.admin.topic_metrics import TOTALLED, TopicMetrics

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from prometheus_client import Metric

    from magnetar.admin.models.topics import SnapshotStats, TopicStats
    from magnetar.admin.service import AdminService
    from magnetar.base.histogram import Histogram
    from magnetar.base.names import TopicName

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STORAGE = {
    "magnetar_storage_failed": "1 after a failed write or sync: nothing is confirmed until the broker is restarted",
    "magnetar_storage_full": "1 while publishing is paused because the disk is full",
}


async def exposition(service: AdminService) -> list[bytes]:
    """Return the metrics of the broker and of every open topic, as chunks of Prometheus text.

    The metrics are gathered in slices, so the samples are taken at different times.
    """
    return await service.in_slices(_chunks(service))


def _chunks(service: AdminService) -> Generator[None, None, list[bytes]]:
    topics, broker = TopicMetrics(service.cluster_name), _BrokerMetrics(service)
    for name in service.topics.open_names():
        yield
        stats = yield from service.topics.open_stats(name)
        if stats is None:
            continue
        broker.add_topic(name, stats)
        labels = topics.add_topic(str(name.namespace_name), str(name), stats)
        for subscription, its_stats in stats.subscriptions.items():
            yield
            topics.add_subscription(labels, subscription, its_stats)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(broker)
    chunks = [generate_latest(registry)]
    for chunk in topics.chunks():
        yield
        chunks.append(chunk)
    return chunks


class _BrokerMetrics:
    """Collector of prometheus_client for the metrics of the whole broker."""

    def __init__(self, service: AdminService) -> None:
        self._cluster = service.cluster_name
        self._storage = service.storage_refuses()
        self._stalls = service.loop_stalls()
        self._commit_times = service.commit_times()
        self._metadata_commit_times = service.metadata_commit_times()
        self._unloadable = service.load_failures()
        self._limit_hits = service.limit_hits()
        self._memory = service.memory()
        self._topics: Counter[str] = Counter()
        """Number of topics by namespace."""
        self._totals = dict.fromkeys(TOTALLED, 0.0)
        self._found_snapshots: list[SnapshotStats] = []

    def add_topic(self, name: TopicName, stats: TopicStats) -> None:
        """Count a topic."""
        self._topics[str(name.namespace_name)] += 1
        for total, value_of in TOTALLED.items():
            self._totals[total] += value_of(stats)
        if stats.replicated_subscription_snapshots is not None:
            self._found_snapshots.append(stats.replicated_subscription_snapshots)

    def collect(self) -> Iterator[Metric]:
        yield from self._broker()
        yield from self._snapshots()
        unloadable = GaugeMetricFamily(
            "magnetar_topic_load_failed",
            "1 for each topic that could not be loaded; its stats state the reason",
            labels=("cluster", "namespace", "topic"),
        )
        for failed in sorted(self._unloadable):
            unloadable.add_metric((self._cluster, str(failed.namespace_name), str(failed)), 1)
        yield unloadable

    def _histogram(self, name: str, text: str, durations: Histogram) -> Metric:
        family = HistogramMetricFamily(name, text, labels=("cluster",))
        buckets = [(floatToGoString(bound), count) for bound, count in durations.buckets()]  # type: ignore[no-untyped-call]
        family.add_metric((self._cluster,), buckets, durations.sum_s)
        return family

    def _snapshots(self) -> Iterator[Metric]:
        """Yield Pulsar's metrics of snapshots, for the whole broker."""
        snapshots = self._found_snapshots
        name = "pulsar_replicated_subscriptions_{}".format
        pending = GaugeMetricFamily(
            name("pending_snapshots"), "Snapshots for replicated subscriptions in progress", labels=("cluster",)
        )
        pending.add_metric((self._cluster,), sum(each.pending for each in snapshots))
        timed_out = CounterMetricFamily(
            name("timedout_snapshots"), "Snapshots that timed out because a cluster did not answer", labels=("cluster",)
        )
        timed_out.add_metric((self._cluster,), sum(each.timed_out for each in snapshots))
        took = SummaryMetricFamily(
            name("snapshot_ms"), "Duration of complete snapshots, in milliseconds", labels=("cluster",)
        )
        completed = sum(each.completed for each in snapshots)
        took.add_metric((self._cluster,), completed, sum(each.took_ms for each in snapshots))
        yield from (pending, timed_out, took)

    def _broker(self) -> Iterator[Metric]:
        topics = GaugeMetricFamily("pulsar_broker_topics_count", "", labels=("cluster",))
        topics.add_metric((self._cluster,), self._topics.total())
        yield topics
        for name, value in self._totals.items():
            total = GaugeMetricFamily(f"pulsar_broker_{name}", "", labels=("cluster",))
            total.add_metric((self._cluster,), value)
            yield total
        for name, text, is_so in zip(_STORAGE, _STORAGE.values(), self._storage, strict=True):
            storage = GaugeMetricFamily(name, text, labels=("cluster",))
            storage.add_metric((self._cluster,), is_so)
            yield storage
        hits = CounterMetricFamily(
            "magnetar_limit_hits",
            "Number of times that a limit was reached since the start of the broker",
            labels=("cluster", "limit"),
        )
        for limit, count in self._limit_hits.items():
            hits.add_metric((self._cluster, limit), count)
        yield hits
        held = GaugeMetricFamily(
            "magnetar_memory_bytes",
            "Memory in use, by share of memoryLimitMB; total is the resident memory of the process",
            labels=("cluster", "share"),
        )
        allowed = GaugeMetricFamily(
            "magnetar_memory_limit_bytes", "Maximum memory of each share", labels=("cluster", "share")
        )
        for share, (used, most) in self._memory.items():
            held.add_metric((self._cluster, share), used)
            allowed.add_metric((self._cluster, share), most)
        yield from (held, allowed)
        yield self._histogram(
            "magnetar_loop_stall_seconds",
            "Delay of the event loop: the time that a client waits because of others. Measured 50 times a second",
            self._stalls,
        )
        yield self._histogram(
            "magnetar_storage_commit_seconds",
            "Duration of writing and syncing a group of entries; a receipt waits for one or two groups",
            self._commit_times,
        )
        yield self._histogram(
            "magnetar_metadata_commit_seconds",
            "Duration of writing and syncing a group of metadata changes; requests that change metadata wait for it",
            self._metadata_commit_times,
        )
        per_namespace = GaugeMetricFamily("pulsar_topics_count", "", labels=("cluster", "namespace"))
        for namespace, count in self._topics.items():
            per_namespace.add_metric((self._cluster, namespace), count)
        yield per_namespace
