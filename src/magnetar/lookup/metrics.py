"""The metrics of a lookup service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from magnetar.security.exposure import Risk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.security.exposure import Finding

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one instance."""

    def __init__(self) -> None:
        """Begin with zeros."""
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "magnetar_lookup_requests", "Requests of clients.", ["request", "outcome"], registry=self.registry
        )
        self.durations = Histogram(
            "magnetar_lookup_seconds",
            "Time from a lookup to its answer.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.connections = Gauge("magnetar_lookup_connections", "Connections of clients.", registry=self.registry)
        self.refused_connections = Counter(
            "magnetar_lookup_refused_connections", "Connections beyond the limit.", registry=self.registry
        )
        self.waiting = Gauge(
            "magnetar_lookup_waiting_questions", "Questions that wait for a cluster.", registry=self.registry
        )
        self.routes = Gauge("magnetar_lookup_routes", "Known routes, without deleted ones.", registry=self.registry)
        self._risks = Gauge(
            "magnetar_lookup_security_risks",
            "Risks found at the start: ports of a service that uses brokers without credentials, and keys that each "
            "user of the machine can read.",
            ["risk"],
            registry=self.registry,
        )
        self.followed = Gauge(
            "magnetar_lookup_broker_followed",
            "Whether the routes of a broker are followed.",
            ["broker"],
            registry=self.registry,
        )

    def note(self, risks: Sequence[Finding]) -> None:
        """Set the numbers of risks."""
        for risk in Risk:
            self._risks.labels(risk.value).set(sum(finding.risk is risk for finding in risks))
