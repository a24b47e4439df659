"""Metrics of the metadata synchronizer; there are none while it is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.admin.models.metadata_sync import MetadataSyncStatus

_PREFIX = "magnetar_metadata_sync"


def metadata_sync_metrics(cluster: str, status: MetadataSyncStatus) -> Iterator[Metric]:
    """Yield the metrics of the synchronizer of ``cluster``."""
    gauges = (
        ("connected", "1 while the metadata synchronizer is connected to its event topic", status.connected),
        (
            "stranded_topics",
            "Topics whose namespace another cluster deleted",
            status.stranded_topics,
        ),
        ("unpublished_events", "Changes made here that are not in the event topic yet", status.unpublished_events),
        ("local_values", "Fields and resources that are local although the rules do not say so", status.local_values),
    )
    for name, text, value in gauges:
        gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=("cluster",))
        gauge.add_metric((cluster,), value)
        yield gauge
    counters = (
        ("applied_events", "Events of the event topic with news", status.applied_events),
        ("refused_events", "Events of the event topic that could not be applied", status.refused_events),
        (
            "conflicts",
            "Edits of metadata that lost against a concurrent edit of the same field or a deletion",
            status.conflicts,
        ),
    )
    for name, text, value in counters:
        counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=("cluster",))
        counter.add_metric((cluster,), value)
        yield counter
    ages = GaugeMetricFamily(
        f"{_PREFIX}_newest_event_age_seconds",
        "Seconds since the newest event of the other cluster that arrived here; no sample if none ever arrived",
        labels=("cluster", "remote_cluster"),
    )
    for remote, age in status.newest_event_age_seconds.items():
        if age is not None and remote != cluster:
            ages.add_metric((cluster, remote), age)
    yield ages
