"""``/metrics``: statistics as Prometheus text, with Pulsar's names and labels.

Only measured values are exposed: a metric of Pulsar that is missing here is unknown, not zero. As in Pulsar, metrics of
topics are gauges, including those that only grow.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

from magnetar.admin.metrics.broker import OF_BROKER, BrokerMetrics
from magnetar.admin.metrics.clients import CONSUMER, PRODUCER
from magnetar.admin.metrics.links import HANDOVERS, LINK
from magnetar.admin.metrics.subscriptions import PROGRESS, SUBSCRIPTION
from magnetar.admin.metrics.table import Table, label
from magnetar.admin.metrics.topics import DEDUPLICATED, ENTRY_SIZE, TOPIC, WRITE_LATENCY
from magnetar.admin.topic_service import StatsOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping

    from magnetar.admin.metrics.measurements import Totals
    from magnetar.admin.metrics.options import MetricsOptions
    from magnetar.admin.metrics.table import Metric, Stats
    from magnetar.admin.models.subscriptions import SubscriptionStats
    from magnetar.admin.models.topics import TopicStats
    from magnetar.admin.service import AdminService
    from magnetar.admin.topic_service import DomainTopicOperations
    from magnetar.base.names import NamespaceName, TopicName

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def exposition(service: AdminService) -> list[bytes]:
    """Return the metrics of the broker and of every open topic, as chunks of Prometheus text.

    The metrics are gathered in slices, so the samples are taken at different times.
    """
    return await service.in_slices(_chunks(service))


def _chunks(service: AdminService) -> Generator[None, None, list[bytes]]:
    options = service.metrics_options
    of_each = StatsOptions(
        exclude_publishers=not options.by_producer, exclude_consumers=not options.by_consumer, for_metrics=True
    )
    topics = TopicMetrics(service.cluster_name, options)
    pending_snapshots = 0
    domains: tuple[DomainTopicOperations, ...] = (service.topics, service.non_persistent)
    for operations, name in [(each, name) for each in domains for name in each.open_names()]:
        yield
        stats = yield from operations.open_stats(name, of_each)
        if stats is not None:
            yield from topics.add(name, stats)
            if stats.replicated_subscription_snapshots is not None:
                pending_snapshots += stats.replicated_subscription_snapshots.pending
    if not options.by_topic:
        yield from topics.add_totals(service.totals())
    chunks: list[bytes] = []
    for chunk in topics.chunks():
        yield
        if chunk:
            chunks.append(chunk)
    synchronizer = service.metadata_sync
    status = None if synchronizer is None else (yield from synchronizer.status())
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerMetrics(service, topics.counts, topics.sums(), pending_snapshots, status))
    return [generate_latest(registry), *chunks]


class TopicMetrics:
    """Samples of all topics with their subscriptions, links and clients; or, by option, of the namespaces."""

    def __init__(self, cluster: str, options: MetricsOptions) -> None:
        """Begin without samples."""
        self._cluster = label("cluster", cluster)
        self._options = options
        self._topics = self._table(TOPIC, [metric.name for metric in TOPIC if metric.name in OF_BROKER])
        self._write_latencies = self._table(WRITE_LATENCY)
        self._entry_sizes = self._table(ENTRY_SIZE)
        self._links = self._table(LINK)
        self._subscriptions = self._table(SUBSCRIPTION)
        self._progress = self._table(PROGRESS)
        self._deduplicated, self._handovers = Table([DEDUPLICATED]), Table([HANDOVERS])
        """Counters of the namespaces."""
        self._consumers = Table(CONSUMER)
        self._producers = Table(PRODUCER)
        self._bytes_out = 0
        """Bytes sent from all topics, also to subscriptions that do not exist any more."""
        self.counts: Counter[str] = Counter()
        """Number of topics by namespace."""

    def _table(self, metrics: Iterable[Metric[Stats]], summed: Collection[str] = ()) -> Table[Stats]:
        by_topic = self._options.by_topic
        return Table((metric for metric in metrics if by_topic or metric.combine is not None), summed)

    def sums(self) -> Mapping[str, float]:
        """Return the sums over all topics, by name of the metric, after all chunks were read."""
        return {**self._topics.sums, "pulsar_out_bytes_total": self._bytes_out}

    def add(self, name: TopicName, stats: TopicStats) -> Iterator[None]:
        """Add a topic, in steps."""
        labels = self._labels(name)
        self._topics.add(labels, stats)
        self._bytes_out += stats.bytes_out_counter
        if stats.log.entry_sizes.row:
            self._write_latencies.add_values(labels, stats.log.write_latencies.row)
            self._entry_sizes.add_values(labels, stats.log.entry_sizes.row)
        for remote, link in stats.replication.items():
            self._links.add(f"{labels},{label('remote_cluster', remote)}", link)
        for at, (subscription, its_stats) in enumerate(stats.subscriptions.items()):
            if at:
                yield
            self._add_subscription(labels, subscription, its_stats)
        for producer in stats.publishers:
            its_name = label("producer_name", producer.producer_name or "")
            self._producers.add(f'{labels},{its_name},producer_id="{producer.producer_id}"', producer)
            yield

    def add_totals(self, totals: Totals) -> Iterator[None]:
        """Add the counters of the namespaces, in steps."""
        for namespace, count in tuple(totals.deduplicated.items()):
            self._deduplicated.add_values(self._labels_of(namespace), [count])
            yield
        for (namespace, remote), count in tuple(totals.handovers.items()):
            labels = f"{self._labels_of(namespace)},{label('remote_cluster', remote)}"
            self._handovers.add_values(labels, [count])
            yield

    def _add_subscription(self, labels: str, name: str, stats: SubscriptionStats) -> None:
        if self._options.by_topic:
            labels = f"{labels},{label('subscription', name)}"
        self._subscriptions.add(labels, stats)
        for remote in stats.progress_unconfirmed or ():
            self._progress.add(f"{labels},{label('remote_cluster', remote)}", (stats, remote))
        for consumer in stats.consumers:
            its_name = label("consumer_name", consumer.consumer_name or "")
            self._consumers.add(f'{labels},{its_name},consumer_id="{consumer.consumer_id}"', consumer)

    def _labels_of(self, namespace: NamespaceName | str) -> str:
        return f"{self._cluster},{label('namespace', str(namespace))}"

    def _labels(self, name: TopicName) -> str:
        of = f"{name.tenant}/{name.namespace}"
        self.counts[of] += 1
        namespace = self._labels_of(of)
        if not self._options.by_topic:
            return namespace
        if not self._options.split_partition:
            return f"{namespace},{label('topic', str(name))}"
        topic = name if name.partition_index < 0 else name.partitioned_topic
        return f'{namespace},{label("topic", str(topic))},partition="{name.partition_index}"'

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in chunks."""
        yield from self._topics.chunks()
        yield from self._write_latencies.chunks()
        yield from self._entry_sizes.chunks()
        yield from self._subscriptions.chunks()
        yield from self._links.chunks()
        yield from self._progress.chunks()
        if not self._options.by_topic:
            yield from self._deduplicated.chunks()
            yield from self._handovers.chunks()
        if self._options.by_consumer:
            yield from self._consumers.chunks()
        if self._options.by_producer:
            yield from self._producers.chunks()
