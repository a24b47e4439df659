"""Metrics of authentication; there are none while it is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.admin.metrics.measurements import AuthenticationTotals


def authentication_metrics(cluster: str, totals: AuthenticationTotals) -> Iterator[Metric]:
    """Yield the metrics of authentication in ``cluster``, by Pulsar's names for them."""
    successes = CounterMetricFamily(
        "pulsar_authentication_success",
        "Connections and REST requests that have proved a role since the start of the broker",
        labels=("cluster", "auth_method"),
    )
    for method, count in totals.successes.items():
        successes.add_metric((cluster, method), count)
    yield successes
    failures = CounterMetricFamily(
        "pulsar_authentication_failures",
        "Connections and REST requests that were refused because they have not proved a role",
        labels=("cluster", "auth_method", "reason"),
    )
    for (method, kind), count in totals.failures.items():
        failures.add_metric((cluster, method, kind.value), count)
    yield failures
