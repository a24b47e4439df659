"""Metrics of the audit log; there are none without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.admin.metrics.measurements import AuditTotals


def audit_metrics(cluster: str, totals: AuditTotals) -> Iterator[Metric]:
    """Yield the metrics of the audit log in ``cluster``."""
    events = CounterMetricFamily(
        "magnetar_audit_events",
        "Events of the audit log since the start of the broker, including suppressed and lost ones",
        labels=("cluster", "result"),
    )
    for result, count in totals.events.items():
        events.add_metric((cluster, result), count)
    yield events
    counters = {
        "magnetar_audit_events_suppressed": (
            "Events that were not written because their address had caused too many",
            totals.suppressed,
        ),
        "magnetar_audit_events_lost": ("Events that could not be written to the file", totals.lost),
    }
    for name, (text, count) in counters.items():
        counter = CounterMetricFamily(name, text, labels=("cluster",))
        counter.add_metric((cluster,), count)
        yield counter
    failing = GaugeMetricFamily(
        "magnetar_audit_log_failed", "1 while events cannot be written to the audit log", labels=("cluster",)
    )
    failing.add_metric((cluster,), float(totals.is_failing))
    yield failing
