"""Metrics of the whole broker."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.utils import floatToGoString

from magnetar.admin.metrics.audit import audit_metrics
from magnetar.admin.metrics.authentication import authentication_metrics
from magnetar.admin.metrics.metadata_sync import metadata_sync_metrics
from magnetar.admin.metrics.tls import tls_metrics
from magnetar.admin.metrics.topics import SUMMED
from magnetar.security.exposure import Risk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.admin.models.metadata_sync import MetadataSyncStatus
    from magnetar.admin.service import AdminService
    from magnetar.base.histogram import Histogram

_STORAGE = {
    "magnetar_storage_failed": "1 after a failed write or sync: nothing is confirmed until the broker is restarted",
    "magnetar_storage_full": "1 while publishing is paused because the disk is full",
}


_QUANTILES = (0.0, 0.5, 0.95, 0.99, 0.999, 0.9999, 1.0)
"""Those of Pulsar."""

_CONNECTIONS = {
    "active_connections": "Open connections",
    "connection_created_total_count": "Accepted connections since the start of the broker",
    "connection_create_success_count": "Connections whose handshake succeeded since the start of the broker",
    "connection_create_fail_count": "Connections that were refused, or that ended before the handshake was complete",
    "connection_closed_total_count": "Closed connections since the start of the broker",
}

OF_BROKER = {*[f"pulsar_{metric.name}" for metric in SUMMED], "pulsar_in_bytes_total"}
"""Metrics of topics whose sums are metrics of the broker, too."""


class BrokerMetrics:
    """Collector of prometheus_client for the metrics of the whole broker."""

    def __init__(
        self,
        service: AdminService,
        topics: Counter[str],
        sums: Mapping[str, float],
        pending_snapshots: int,
        synchronizer: MetadataSyncStatus | None,
    ) -> None:
        """Take the figures of the broker, the number of topics by namespace, and the sums over all topics.

        ``synchronizer`` is the state of the metadata synchronizer; None if it is off.
        """
        self._cluster = service.cluster_name
        self._version = service.version
        self._storage = service.storage_refuses()
        self._durations = service.durations()
        self._unloadable = service.load_failures()
        self._limit_hits = service.limit_hits()
        self._connections = service.connections()
        self._memory = service.memory()
        totals = service.totals()
        self._authentication, self._audit = totals.authentication, totals.audit
        self._tls = service.tls()
        self._risks = Counter(finding.risk for finding in service.risks)
        self._synchronizer = synchronizer
        self._topics = topics
        self._sums = sums
        self._pending_snapshots = pending_snapshots

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._process()
        yield from self._of_topics()
        yield from self._of_storage()
        for name, text in _CONNECTIONS.items():
            yield self._gauge(f"pulsar_{name}", text, self._connections[name], metric="broker_connection")
        yield self._publish_latency()
        yield from self._of_limits()
        yield self._of_risks()
        yield from self._histograms()
        yield from self._snapshots()
        if self._authentication is not None:
            yield from authentication_metrics(self._cluster, self._authentication)
        if self._audit is not None:
            yield from audit_metrics(self._cluster, self._audit)
        if self._synchronizer is not None:
            yield from metadata_sync_metrics(self._cluster, self._synchronizer)
        if self._tls is not None:
            yield from tls_metrics(self._cluster, self._tls)

    def _gauge(self, name: str, text: str, value: float, **labels: str) -> Metric:
        family = GaugeMetricFamily(name, text, labels=("cluster", *labels))
        family.add_metric((self._cluster, *labels.values()), value)
        return family

    def _process(self) -> Iterator[Metric]:
        """Yield the version, and the usual metrics of a process."""
        yield self._gauge("pulsar_version_info", "1; the version is a label", 1, version=self._version)
        for family in ProcessCollector(registry=None).collect():
            labeled = Metric(family.name, family.documentation, family.type)
            for sample in family.samples:
                labeled.add_sample(sample.name, {"cluster": self._cluster}, sample.value)
            yield labeled

    def _of_topics(self) -> Iterator[Metric]:
        yield self._gauge("pulsar_broker_topics_count", "Loaded topics", self._topics.total())
        for metric in SUMMED:
            value = self._sums[f"pulsar_{metric.name}"]
            yield self._gauge(f"pulsar_broker_{metric.name}", f"{metric.documentation}; sum of the topics", value)
        yield self._gauge(
            "pulsar_broker_in_bytes_total",
            "Bytes published to the loaded topics since they were loaded",
            self._sums["pulsar_in_bytes_total"],
            system_topic="false",
        )
        yield self._gauge(
            "pulsar_broker_out_bytes_total",
            "Bytes sent from the loaded topics since they were loaded",
            self._sums["pulsar_out_bytes_total"],
            system_subscription="false",
        )
        per_namespace = GaugeMetricFamily(
            "pulsar_topics_count", "Loaded topics of the namespace", labels=("cluster", "namespace")
        )
        for namespace, count in self._topics.items():
            per_namespace.add_metric((self._cluster, namespace), count)
        yield per_namespace
        unloadable = GaugeMetricFamily(
            "magnetar_topic_load_failed",
            "1 for each topic that could not be loaded; its stats state the reason",
            labels=("cluster", "namespace", "topic"),
        )
        for failed in sorted(self._unloadable):
            unloadable.add_metric((self._cluster, str(failed.namespace_name), str(failed)), 1)
        yield unloadable

    def _of_storage(self) -> Iterator[Metric]:
        for name, text, is_so in zip(_STORAGE, _STORAGE.values(), self._storage, strict=True):
            yield self._gauge(name, text, is_so)
        reads, misses = self._sums["pulsar_storage_read_rate"], self._sums["pulsar_storage_read_cache_misses_rate"]
        yield self._gauge("pulsar_ml_count", "Open logs of topics", self._topics.total())
        yield self._gauge("pulsar_ml_cache_used_size", "Bytes in the caches of the log", self._memory["caches"][0])
        yield self._gauge("pulsar_ml_cache_hits_rate", "Entries read per second from memory", reads - misses)
        yield self._gauge("pulsar_ml_cache_misses_rate", "Entries read per second from the disk", misses)

    def _publish_latency(self) -> Metric:
        name, durations = "pulsar_broker_publish_latency", self._durations.writes
        text = "Milliseconds until a run of published entries was durable; quantiles of the newest 1,000 runs"
        family = Metric(name, text, "summary")
        for share, seconds in zip(_QUANTILES, durations.quantiles(_QUANTILES), strict=False):
            family.add_sample(name, {"cluster": self._cluster, "quantile": str(share)}, seconds * 1000)
        family.add_sample(f"{name}_count", {"cluster": self._cluster}, durations.count)
        family.add_sample(f"{name}_sum", {"cluster": self._cluster}, durations.sum_s * 1000)
        return family

    def _of_limits(self) -> Iterator[Metric]:
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

    def _of_risks(self) -> Metric:
        risks = GaugeMetricFamily(
            "magnetar_security_risks",
            "Risks that the broker found at its start: ports that anyone can use, and secrets that each user of the "
            "machine can read",
            labels=("cluster", "risk"),
        )
        for risk in Risk:
            risks.add_metric((self._cluster, risk.value), self._risks[risk])
        return risks

    def _histograms(self) -> Iterator[Metric]:
        yield self._histogram(
            "magnetar_loop_stall_seconds",
            "Delay of the event loop: the time that a client waits because of others. Measured 50 times a second",
            self._durations.loop_stalls,
        )
        yield self._histogram(
            "magnetar_storage_commit_seconds",
            "Duration of writing and syncing a group of entries; a receipt waits for one or two groups",
            self._durations.commits,
        )
        yield self._histogram(
            "magnetar_metadata_commit_seconds",
            "Duration of writing and syncing a group of metadata changes; requests that change metadata wait for it",
            self._durations.metadata_commits,
        )

    def _histogram(self, name: str, text: str, durations: Histogram) -> Metric:
        family = HistogramMetricFamily(name, text, labels=("cluster",))
        buckets = [(floatToGoString(bound), count) for bound, count in durations.buckets()]  # type: ignore[no-untyped-call]
        family.add_metric((self._cluster,), buckets, durations.sum_s)
        return family

    def _snapshots(self) -> Iterator[Metric]:
        """Yield Pulsar's metrics of snapshots, for the whole broker."""
        counts = self._durations.snapshots
        name = "pulsar_replicated_subscriptions_{}".format
        yield self._gauge(
            name("pending_snapshots"),
            "Snapshots for replicated subscriptions in progress",
            self._pending_snapshots,
        )
        timed_out = CounterMetricFamily(
            name("timedout_snapshots"), "Snapshots that timed out because a cluster did not answer", labels=("cluster",)
        )
        timed_out.add_metric((self._cluster,), counts.timed_out)
        took = SummaryMetricFamily(
            name("snapshot_ms"), "Duration of complete snapshots, in milliseconds", labels=("cluster",)
        )
        took.add_metric((self._cluster,), counts.completed, counts.took_s * 1000)
        yield from (timed_out, took)
