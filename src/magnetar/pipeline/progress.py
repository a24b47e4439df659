"""How far replication has come, as the source brokers count it from the receipts of the targets."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, MagnetarError
from magnetar.pipeline import limits
from magnetar.pipeline.namespaces import namespaces, replication_clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.names import TopicName
    from magnetar.pipeline.options import ClusterAddress


@dataclass(frozen=True, slots=True)
class LinkProgress:
    """One link, over all its topics."""

    source: str
    target: str
    topics: int = 0
    messages: int = 0
    """Replicated since the source broker started."""
    rate: float = 0.0
    """Messages per second since the last report."""
    backlog: int = 0
    """Entries that are not confirmed yet."""
    delay_seconds: float = 0.0
    """Age of the oldest of them."""

    def add(self, replication: dict[str, float]) -> LinkProgress:
        """Return this with one more topic's ``replication.<remote>`` counted in."""
        return LinkProgress(
            source=self.source,
            target=self.target,
            topics=self.topics + 1,
            messages=self.messages + int(replication.get("msgOutCount", 0)),
            backlog=self.backlog + int(replication.get("replicationBacklog", 0)),
            delay_seconds=max(self.delay_seconds, float(replication.get("replicationDelayInSeconds", 0))),
        )

    def since(self, before: LinkProgress | None, seconds: float) -> LinkProgress:
        """Return this with its rate; 0 where there is nothing to compare with, or the broker started anew."""
        moved = self.messages - before.messages if before is not None and seconds > 0 else 0
        rate = max(0, moved) / seconds if seconds > 0 else 0.0
        return LinkProgress(
            self.source, self.target, self.topics, self.messages, rate, self.backlog, self.delay_seconds
        )


class ProgressWatch:
    """Asks all clusters every PROGRESS_SECONDS, in a thread of its own."""

    def __init__(
        self,
        clusters: Sequence[ClusterAddress],
        monotonic: Callable[[], float],
        on_progress: Callable[[list[LinkProgress]], None],
    ) -> None:
        """Call ``on_progress``, in the watch's thread, with every link that could be asked for."""
        self._names = [cluster.name for cluster in clusters]
        self._clients = {
            cluster.name: AdminClient(cluster.admin_url, timeout_s=limits.ADMIN_TIMEOUT_SECONDS) for cluster in clusters
        }
        self._monotonic = monotonic
        self._on_progress = on_progress
        self._before: dict[tuple[str, str], LinkProgress] = {}
        self._asked_at = monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; waits for a request under way, at most its timeout."""
        self._stopped.set()
        self._thread.join()
        for client in self._clients.values():
            client.close()

    def poll(self) -> list[LinkProgress]:
        """Ask now. A cluster that does not answer is left out."""
        now = self._monotonic()
        seconds, self._asked_at = now - self._asked_at, now
        links = []
        for source, client in self._clients.items():
            with contextlib.suppress(MagnetarError):
                links += self._links_of(source, client)
        reported = [link.since(self._before.get((link.source, link.target)), seconds) for link in links]
        self._before = {(link.source, link.target): link for link in links}
        return reported

    def _run(self) -> None:
        while not self._stopped.wait(limits.PROGRESS_SECONDS):
            self._on_progress(self.poll())

    def _links_of(self, source: str, client: AdminClient) -> list[LinkProgress]:
        links = {target: LinkProgress(source, target) for target in self._names if target != source}
        for namespace in namespaces(client):
            if len(replication_clusters(client, namespace)) == 1:
                continue  # it stays here
            for topic in client.topics.of_namespace(namespace)[: limits.PROGRESS_TOPICS_MAX]:
                for target, replication in _replication(client, topic).items():
                    if target in links:
                        links[target] = links[target].add(replication)
        return list(links.values())


def _replication(client: AdminClient, topic: TopicName) -> dict[str, dict[str, float]]:
    try:
        return dict(client.topics.stats(topic).get("replication", {}))
    except AdminError:  # deleted since it was listed
        return {}
