"""The Prometheus metrics of replication."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from magnetar.pipeline.driver.replicate import Event, Progress, QueryEnded, Ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.pipeline.driver.progress import LinkProgress
    from magnetar.pipeline.status import TaskStatus

_LINK = ("source", "target")


class ReplicationMetrics:
    """The metrics of one driver, in a separate registry."""

    def __init__(self) -> None:
        """Begin without links."""
        self._reported: set[tuple[str, str]] = set()
        """Source and target of the links in the last progress report."""
        self._targets: set[str] = set()
        """Targets whose tasks are in the last progress report."""
        self.registry = registry = CollectorRegistry()
        prefix = "magnetar_replication"
        self._ready = Gauge(f"{prefix}_ready", "1 once every target's links are carried.", registry=registry)
        self._ended = Counter(f"{prefix}_queries_ended", "Queries that ended unasked.", registry=registry)
        self._topics = Gauge(f"{prefix}_topics", "Topics of the link.", _LINK, registry=registry)
        self._unknown = Gauge(
            f"{prefix}_unknown_topics",
            "Topics whose target has not confirmed what it holds.",
            _LINK,
            registry=registry,
        )
        self._rate = Gauge(f"{prefix}_rate", "Messages per second sent on the link.", _LINK, registry=registry)
        self._backlog = Gauge(f"{prefix}_backlog", "Entries not confirmed by the target.", _LINK, registry=registry)
        self._delay = Gauge(f"{prefix}_delay_seconds", "Age of the oldest unconfirmed entry.", _LINK, registry=registry)
        self._links = Gauge(f"{prefix}_attached_topics", "Topics attached now.", ("target",), registry=registry)
        self._parked = Gauge(
            f"{prefix}_parked_topics", "Topics waiting after a refusal.", ("target",), registry=registry
        )
        self._rivals = Gauge(
            f"{prefix}_other_pipelines", "Other pipelines that hold links of this one.", ("target",), registry=registry
        )
        self._down = Gauge(f"{prefix}_clusters_down", "Clusters out of a task's reach.", ("target",), registry=registry)
        self._in_flight = Gauge(f"{prefix}_in_flight_bytes", "Bytes under way.", ("target",), registry=registry)

    def serve(self, port: int) -> None:
        """Serve ``/metrics`` on ``port`` in a thread; raises OSError if the port is in use."""
        start_http_server(port, registry=self.registry)

    def note(self, event: Event) -> None:
        """Update the metrics with an event."""
        match event:
            case Ready():
                self._ready.set(1)
            case QueryEnded():
                self._ended.inc()
            case Progress(links, tasks):
                self._forget_others(links)
                for link in links:
                    self._note_link(link)
                for target in self._targets - {task.target for task in tasks}:
                    self._forget_task(target)
                for task in tasks:
                    self._note_task(task)

    def _forget_others(self, links: Iterable[LinkProgress]) -> None:
        """Remove the figures of all other links: they are unknown while their source does not answer."""
        reported = {(link.source, link.target) for link in links}
        for labels in self._reported - reported:
            for gauge in (self._topics, self._unknown, self._rate, self._backlog, self._delay):
                with suppress(KeyError):
                    gauge.remove(*labels)
        self._reported = reported

    def _note_link(self, link: LinkProgress) -> None:
        labels = link.source, link.target
        self._topics.labels(*labels).set(link.topics)
        self._unknown.labels(*labels).set(link.unknown_topics)
        self._rate.labels(*labels).set(link.rate)
        for gauge, value in ((self._backlog, link.backlog), (self._delay, link.delay_seconds)):
            if value is not None:
                gauge.labels(*labels).set(value)
            else:
                with suppress(KeyError):
                    gauge.remove(*labels)

    def _forget_task(self, target: str) -> None:
        """Remove the figures of a task that reports no more."""
        self._targets.discard(target)
        for gauge in (self._links, self._parked, self._rivals, self._down, self._in_flight):
            gauge.remove(target)

    def _note_task(self, task: TaskStatus) -> None:
        self._targets.add(task.target)
        self._links.labels(task.target).set(task.links)
        self._parked.labels(task.target).set(len(task.parked))
        self._rivals.labels(task.target).set(len(task.rivals))
        self._down.labels(task.target).set(len(task.down))
        self._in_flight.labels(task.target).set(task.in_flight_bytes)
