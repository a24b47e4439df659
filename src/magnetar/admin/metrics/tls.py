"""Metrics of TLS, which are exposed while a port of the broker has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric


@dataclass(frozen=True, slots=True)
class TlsState:
    """State of TLS on all ports."""

    certificate_expiry: float
    """When the certificate in use expires, in seconds since the epoch."""
    is_renewal_refused: bool
    """Whether the files of the certificate have changed and cannot be used."""
    handshakes: int
    failed_handshakes: int
    handshakes_in_progress: int


def tls_metrics(cluster: str, state: TlsState) -> Iterator[Metric]:
    """Yield the metrics."""
    gauges = {
        "magnetar_tls_certificate_expiry_timestamp_seconds": (
            "When the certificate in use expires, in seconds since the epoch",
            state.certificate_expiry,
        ),
        "magnetar_tls_certificate_renewal_failed": (
            "1 while the files of the certificate cannot be used and the former certificate stays in use",
            float(state.is_renewal_refused),
        ),
        "magnetar_tls_handshakes_in_progress": (
            "Clients whose handshake of TLS is not complete",
            state.handshakes_in_progress,
        ),
    }
    for name, (text, value) in gauges.items():
        gauge = GaugeMetricFamily(name, text, labels=("cluster",))
        gauge.add_metric((cluster,), value)
        yield gauge
    counters = {
        "magnetar_tls_handshakes": ("Completed handshakes of TLS since the start of the broker", state.handshakes),
        "magnetar_tls_handshakes_failed": (
            "Handshakes of TLS that failed, or were given up, since the start of the broker",
            state.failed_handshakes,
        ),
    }
    for name, (text, count) in counters.items():
        counter = CounterMetricFamily(name, text, labels=("cluster",))
        counter.add_metric((cluster,), count)
        yield counter
