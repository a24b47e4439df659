"""The progress of replication, as the source brokers derive it from the targets' receipts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import AdminError, MagnetarError
from magnetar.base.names import NamespaceName
from magnetar.pipeline import limits
from magnetar.pipeline.namespaces import Policies
from magnetar.pipeline.watch import Watch, admin_client
from magnetar.wire.links import FOREIGN_LINK_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.base.names import TopicName
    from magnetar.base.world import Clock
    from magnetar.pipeline.options import ClusterAddress


@dataclass(frozen=True, slots=True)
class LinkProgress:
    """The progress of one link, over all its topics."""

    source: str
    target: str
    topics: int = 0
    messages: int = 0
    """Messages replicated since the start of the source broker."""
    rate: float = 0.0
    """Messages per second since the last report."""
    backlog: int | None = 0
    """Number of entries that the target lacks; None while unknown for a topic."""
    delay_seconds: float | None = 0.0
    """Age of the oldest of them; None while unknown for a topic."""
    unknown_topics: int = 0
    """Number of topics whose entries at the target are unknown."""

    def add(self, replication: dict[str, float]) -> LinkProgress:
        """Return the progress with the ``replication.<remote>`` of one more topic, or the ``LinkTotals`` of several."""
        backlog, delay = replication.get("replicationBacklog"), replication.get("replicationDelayInSeconds")
        return replace(
            self,
            topics=self.topics + int(replication.get("topics", 1)),
            messages=self.messages + int(replication.get("msgOutCount", 0)),
            backlog=None if self.backlog is None or backlog is None else self.backlog + int(backlog),
            delay_seconds=None if self.delay_seconds is None or delay is None else max(self.delay_seconds, delay),
            unknown_topics=self.unknown_topics + int(replication.get("unknownTopics", backlog is None)),
        )

    def add_unknown(self, topics: int) -> LinkProgress:
        """Return the progress with further topics, of which nothing is known."""
        unknown = self.unknown_topics + topics
        return replace(self, topics=self.topics + topics, backlog=None, delay_seconds=None, unknown_topics=unknown)

    def since(self, before: LinkProgress | None, seconds: float) -> LinkProgress:
        """Return the progress with its rate; 0 without an earlier report, or after a restart of the broker."""
        moved = self.messages - before.messages if before is not None and seconds > 0 else 0
        rate = max(0, moved) / seconds if seconds > 0 else 0.0
        return replace(self, rate=rate)


class ProgressWatch(Watch):
    """Polls all clusters every PROGRESS_SECONDS, in a thread of its own."""

    def __init__(
        self,
        clusters: Sequence[ClusterAddress],
        namespaces: Sequence[str],
        clock: Clock,
        on_progress: Callable[[list[LinkProgress]], None],
    ) -> None:
        """Create a watch that calls ``on_progress``, in its thread, with every link of a cluster that answers.

        A foreign cluster is asked for ``namespaces`` and for those that the policies of a Magnetar cluster name.
        """
        self._namespaces = frozenset(map(NamespaceName.parse, namespaces))
        super().__init__(
            "progress",
            limits.PROGRESS_SECONDS,
            {cluster.name: admin_client(cluster) for cluster in clusters},
        )
        self._policies = {name: Policies(client, polls_per_policy=1) for name, client in self._clients.items()}
        self._clock = clock
        self._on_progress = on_progress
        self._before: dict[tuple[str, str], LinkProgress] = {}
        self._asked_at = clock.monotonic()

    def poll(self) -> list[LinkProgress]:
        """Poll once. Clusters that do not answer are left out."""
        now = self._clock.monotonic()
        seconds, self._asked_at = now - self._asked_at, now
        links: list[LinkProgress] = []
        by_topic: list[str] = []
        for source, client in self._clients.items():
            with contextlib.suppress(MagnetarError):
                totals = self._totals_of(source, client)
                if totals is None:
                    by_topic.append(source)
                else:
                    links += totals
        if by_topic:
            links += self._by_topic(by_topic)
        reported = [link.since(self._before.get((link.source, link.target)), seconds) for link in links]
        self._before = {(link.source, link.target): link for link in links}
        return reported

    def _ask_all(self) -> None:
        self._on_progress(self.poll())

    def _totals_of(self, source: str, client: AdminClient) -> list[LinkProgress] | None:
        """Return the links of ``source`` from its own sums over topics; None if it has none."""
        try:
            by_namespace = client.brokers.replication()
        except AdminError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        links = self._no_links(source)
        for totals in by_namespace.values():
            for target in links.keys() & totals.keys():
                links[target] = links[target].add(totals[target])
        return list(links.values())

    def _by_topic(self, sources: Collection[str]) -> list[LinkProgress]:
        """Return the links of foreign sources and of those with an earlier version."""
        links: list[LinkProgress] = []
        answering = {source: policies for source, policies in self._policies.items() if not policies.poll()}
        shared = self._namespaces.union(*(each.replicated() for each in answering.values() if each.is_magnetar))
        for source in filter(answering.__contains__, sources):
            client, policies = self._clients[source], answering[source]
            with contextlib.suppress(MagnetarError):
                if policies.is_magnetar:
                    links += self._links_of(source, client, policies.replicated(), _replication)
                else:
                    links += self._links_of(source, client, sorted(shared), self._foreign_replication)
        return links

    def _no_links(self, source: str) -> dict[str, LinkProgress]:
        """Return the links of ``source`` by target, without topics."""
        return {target: LinkProgress(source, target) for target in self._clients if target != source}

    def _links_of(
        self,
        source: str,
        client: AdminClient,
        served: Sequence[NamespaceName],
        replication_of: Callable[[AdminClient, TopicName], dict[str, dict[str, float]] | None],
    ) -> list[LinkProgress]:
        """Return the links of ``source`` topic by topic; of a topic without an answer, the progress is unknown."""
        links = self._no_links(source)
        for namespace in served:
            topics, found, unanswered = _topics(client, namespace), set[str](), 0
            for topic in topics[: limits.PROGRESS_TOPICS_MAX]:
                replications = replication_of(client, topic)
                if replications is None:
                    unanswered += 1
                    continue
                for target in links.keys() & replications.keys():
                    links[target] = links[target].add(replications[target])
                found |= links.keys() & replications.keys()
            unknown = max(0, len(topics) - limits.PROGRESS_TOPICS_MAX) + unanswered
            # If no topic answered, all targets of the namespace are possible.
            for target in (found or (links if unanswered else ())) if unknown else ():
                links[target] = links[target].add_unknown(unknown)
        return list(links.values())

    def _foreign_replication(self, client: AdminClient, topic: TopicName) -> dict[str, dict[str, float]] | None:
        """As ``_replication`` for a foreign source, from its subscriptions that are replication cursors."""
        stats = _stats(client, topic, earliest_time_in_backlog=True)
        if stats is None:
            return None
        return {
            name.removeprefix(FOREIGN_LINK_PREFIX): self._as_replication(each)
            for name, each in stats.get("subscriptions", {}).items()
            if name.startswith(FOREIGN_LINK_PREFIX)
        }

    def _as_replication(self, subscription: dict[str, float]) -> dict[str, float]:
        oldest_ms = subscription.get("earliestMsgPublishTimeInBacklog", 0)
        return {
            "msgOutCount": subscription.get("msgOutCounter", 0),
            "replicationBacklog": subscription.get("msgBacklog", 0),
            "replicationDelayInSeconds": max(0.0, self._clock.now() - oldest_ms / 1000) if oldest_ms > 0 else 0.0,
        }


def _topics(client: AdminClient, namespace: NamespaceName) -> list[TopicName]:
    """Return the topics of a namespace; none if the cluster does not have the namespace."""
    try:
        return client.topics.of_namespace(namespace)
    except AdminError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []


def _replication(client: AdminClient, topic: TopicName) -> dict[str, dict[str, float]] | None:
    """Return the ``replication`` of a topic's stats, by target; None if they are unknown."""
    stats = _stats(client, topic)
    return None if stats is None else dict(stats.get("replication", {}))


def _stats(client: AdminClient, topic: TopicName, *, earliest_time_in_backlog: bool = False) -> dict[str, Any] | None:
    """Return the stats of a topic, empty if it was deleted since the listing; None if the broker cannot report them."""
    try:
        return dict(client.topics.stats(topic, earliest_time_in_backlog=earliest_time_in_backlog))
    except AdminError as error:
        return {} if error.status == HTTPStatus.NOT_FOUND else None
