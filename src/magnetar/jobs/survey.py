"""Questions to the admin APIs of the clusters of a job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from magnetar.base.errors import AdminError, ConfigurationError, InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.connecting import options_of
from magnetar.spark.connecting import admin_client
from magnetar.spark.read.cluster import ledgers_in
from magnetar.wire.links import FOREIGN_LINK_PREFIX, REPLICATOR_PREFIX, TARGET_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.pipeline.options import ClusterAddress
    from magnetar.spark.read.ranges import Ledger

    Json = dict[str, Any]
    Topics = Sequence[str]

Answer = TypeVar("Answer")

_CLUSTERS_MIN = 2


class Bounds(NamedTuple):
    """What a log stores now."""

    end: Position
    """The newest entry; EARLIEST if the log is empty."""
    ledgers: Sequence[Ledger]
    trimmed: Mapping[str, Position] | None
    """Newest trimmed entry by origin; None if the cluster does not tell."""

    @property
    def head(self) -> Position:
        """The place of the oldest entry, or of the next one."""
        return Position(self.ledgers[0].ledger_id, 0) if self.ledgers else Position(self.end.ledger_id + 1, 0)


class Subscribed(NamedTuple):
    """A replicated subscription of one topic in one cluster."""

    is_replicated: bool
    inexact: frozenset[str]
    """The other clusters that do not support exact progress."""


class Skipped(NamedTuple):
    """Damaged entries that a link skips by request of an operator; both positions are inclusive."""

    first: Position
    last: Position


class Survey:
    """The admin APIs of all clusters; each has a thread of its own. Methods raise as AdminClient."""

    def __init__(self, clusters: Sequence[ClusterAddress]) -> None:
        """Create the clients; nothing is sent yet.

        Raises ConfigurationError for fewer than two clusters, or if credentials cannot be read.
        """
        names = [cluster.name for cluster in clusters]
        if len(set(names)) != len(names) or len(names) < _CLUSTERS_MIN:
            message = f"expected at least two clusters with different names, got {', '.join(names)}"
            raise ConfigurationError(message)
        self._clients = {each.name: admin_client(options_of(each)) for each in clusters}
        self._threads = ThreadPoolExecutor(len(names), thread_name_prefix="survey")

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._threads.shutdown()
        for client in self._clients.values():
            client.close()

    def topics(self, topics: Iterable[str], namespaces: Iterable[str]) -> list[str]:
        """Return topics and partitions by name and those of namespaces, sorted.

        Without both, those of all namespaces that are replicated between two of the clusters. Raises ConfigurationError
        for an invalid name, or a topic that no cluster has.
        """
        try:
            names = [TopicName.parse(topic) for topic in topics]
            owners = [NamespaceName.parse(namespace) for namespace in namespaces]
        except InvalidTopicNameError as error:
            raise ConfigurationError(str(error)) from None
        found = {name: self._each(partial(_parts, name)) for name in names}
        missing = [str(name) for name, parts in found.items() if not any(parts.values())]
        if missing:
            message = f"no cluster has the topic {', '.join(missing)}\nhint: magnetar topics list"
            raise ConfigurationError(message)
        if not names and not owners:
            owners = sorted({owner for listed in self._each(self._replicated).values() for owner in listed})
        listed = [self._each(partial(_of_namespace, owner)) for owner in owners]
        parts = [part for by_cluster in (*found.values(), *listed) for of_one in by_cluster.values() for part in of_one]
        return sorted(set(map(str, parts)))

    def bounds(self, topics: Topics) -> dict[str, dict[str, Bounds | None]]:
        """Return the bounds of logs by cluster and topic; None for a topic that does not exist."""
        return self._of_topics(topics, _bounds)

    def bounds_in(self, cluster: str, topics: Topics) -> dict[str, Bounds | None]:
        """Return the bounds of the logs of one cluster, as ``bounds``."""
        return {topic: unless_missing(_bounds, self._clients[cluster], TopicName.parse(topic)) for topic in topics}

    def delivered(self, topics: Topics) -> dict[str, dict[str, dict[str, Position] | None]]:
        """Return up to which position the links of each cluster and topic have delivered, by target."""
        return self._of_topics(topics, lambda client, topic: _delivered(client.topics.internal_stats(topic)))

    def skipped(self, topics: Topics) -> dict[str, dict[str, dict[str, list[Skipped]] | None]]:
        """Return the damaged entries that the links of each cluster and topic skip, by target."""
        return self._of_topics(topics, lambda client, topic: _skipped(client.topics.stats(topic)))

    def subscriptions(self, topics: Topics) -> dict[str, dict[str, dict[str, Subscribed] | None]]:
        """Return the durable subscriptions by cluster and topic."""
        return self._of_topics(topics, lambda client, topic: _subscribed(client.topics.stats(topic)))

    def client(self, cluster: str) -> AdminClient:
        """Return the client of a cluster."""
        return self._clients[cluster]

    def _replicated(self, client: AdminClient) -> list[NamespaceName]:
        """Return the namespaces that are replicated between at least two of the clusters."""
        owners = [owner for tenant in client.tenants.names() for owner in client.namespaces.of_tenant(tenant)]
        names = self._clients.keys()
        return [owner for owner in owners if len(names & set(client.namespaces.clusters(owner))) >= _CLUSTERS_MIN]

    def _of_topics(
        self, topics: Topics, ask: Callable[[AdminClient, TopicName], Answer]
    ) -> dict[str, dict[str, Answer | None]]:
        names = {topic: TopicName.parse(topic) for topic in topics}
        return self._each(lambda client: {topic: unless_missing(ask, client, name) for topic, name in names.items()})

    def _each(self, ask: Callable[[AdminClient], Answer]) -> dict[str, Answer]:
        return dict(zip(self._clients, self._threads.map(ask, self._clients.values()), strict=True))


def unless_missing(ask: Callable[..., Answer], *arguments: object) -> Answer | None:
    """Return the answer; None if what was asked for does not exist, or its namespace is not in the cluster."""
    try:
        return ask(*arguments)
    except AdminError as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED):
            raise
        return None


def _parts(name: TopicName, client: AdminClient) -> list[TopicName]:
    """Return the partitions of a topic, the topic itself if it has none, and nothing if it does not exist."""
    count = 0 if name.partition_index >= 0 else unless_missing(client.topics.partitions, name)
    if count:
        return name.parts(count)
    exists = count is not None and unless_missing(client.topics.internal_stats, name) is not None
    return [name] if exists else []


def _of_namespace(owner: NamespaceName, client: AdminClient) -> list[TopicName]:
    return unless_missing(client.topics.of_namespace, owner) or []


def _bounds(client: AdminClient, topic: TopicName) -> Bounds:
    stats = client.topics.internal_stats(topic)
    ledgers = [ledger for ledger in ledgers_in(stats) if ledger.entries]
    end = Position(ledgers[-1].ledger_id, ledgers[-1].entries - 1) if ledgers else _end(stats)
    trimmed = stats.get("trimmedOrigins")
    if trimmed is None and client.brokers.is_magnetar():
        trimmed = {}
    positions = None if trimmed is None else {name: Position.parse(text) for name, text in trimmed.items()}
    return Bounds(end, ledgers, positions)


def _end(stats: Json) -> Position:
    """Return the newest position of a log without entries: that of an entry that was trimmed, or EARLIEST."""
    last = Position.parse(stats["lastConfirmedEntry"])
    return last if last.entry_id >= 0 else EARLIEST


def _delivered(stats: Json) -> dict[str, Position]:
    """Return the newest entry that the target of each link has confirmed; EARLIEST if that is not known.

    The mark-delete position of a link is not that: it also covers entries from before the link began.
    """
    return {
        name.removeprefix(prefix): Position(
            cursor["properties"].get(f"{TARGET_PROPERTY}.ledger", EARLIEST.ledger_id),
            cursor["properties"].get(f"{TARGET_PROPERTY}.entry", EARLIEST.entry_id),
        )
        for name, cursor in stats["cursors"].items()
        for prefix in (REPLICATOR_PREFIX, FOREIGN_LINK_PREFIX)
        if name.startswith(prefix)
    }


def _skipped(stats: Json) -> dict[str, list[Skipped]]:
    found = {target: each.get("skippedRanges") or () for target, each in stats["replication"].items()}
    return {
        target: [Skipped(*map(Position.parse, text.split(".."))) for text in ranges]
        for target, ranges in found.items()
        if ranges
    }


def _subscribed(stats: Json) -> dict[str, Subscribed]:
    return {
        name: Subscribed(each.get("isReplicated", False), frozenset(each.get("progressUnavailable") or ()))
        for name, each in stats["subscriptions"].items()
        if each.get("isDurable", True)
    }
