"""What a plan knows about clusters and topics, reduced from the answers of admin APIs. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from magnetar.wire.links import BOOKMARK_PREFIX, DEDUPLICATION_CURSOR, FOREIGN_LINK_PREFIX, REPLICATOR_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.names import TopicName

    Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One of the two clusters."""

    name: str
    is_magnetar: bool
    options: str
    """Options that select the cluster in a command, after a space."""
    settings: Mapping[str, str]
    """The settings in effect."""
    registered: frozenset[str]
    """Clusters that it knows, itself among them."""


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """One subscription of a topic or a partition."""

    name: str
    is_durable: bool
    is_replicated: bool
    unavailable: Mapping[str, str]
    """Reasons why clusters cannot have its exact progress, by cluster."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """The link of a topic to the other cluster."""

    is_connected: bool
    parked: str | None
    """Reason why the pipeline has parked the link."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic without partitions, or a partition."""

    topic: TopicName
    storage_bytes: int
    backlog_bytes: int
    """Backlog of the slowest subscription."""
    backlog_age_s: int | None
    """Age of the oldest unacknowledged message; None: unknown."""
    subscriptions: tuple[SubscriptionFacts, ...] = ()
    connections: Mapping[str, int] = field(default_factory=dict)
    """Producers and consumers, by the version of the client."""
    exclusive_producers: int = 0
    open_transactions: int = 0
    is_compacted: bool = False
    link: LinkFacts | None = None
    """The link to the other cluster; None: there is none."""

    @property
    def owner(self) -> TopicName:
        """The topic that has the policies: the partitioned topic of a partition."""
        return self.topic.partitioned_topic


_INTERNAL: Final = (
    *("__compaction", DEDUPLICATION_CURSOR),
    *(REPLICATOR_PREFIX, FOREIGN_LINK_PREFIX, BOOKMARK_PREFIX),
)
"""Beginnings of the names of cursors that Apache Pulsar and the pipeline use there, and that do not move."""

UNKNOWN_VERSION = "unknown"
"""Stands for the version of a client that did not state any."""


def is_internal(subscription: str) -> bool:
    """Return whether a subscription of Apache Pulsar belongs to its broker or to the pipeline, and does not move."""
    return subscription.startswith(_INTERNAL)


def topic_facts(topic: TopicName, stats: Json, other_cluster: str) -> TopicFacts:
    """Reduce the TopicStats of a topic."""
    found: Mapping[str, Json] = stats.get("subscriptions") or {}
    subscriptions = {name: each for name, each in found.items() if not is_internal(name)}
    publishers: list[Json] = stats.get("publishers") or []
    clients = [*publishers, *(each for one in subscriptions.values() for each in one.get("consumers") or ())]
    age = stats.get("oldestBacklogMessageAgeSeconds", -1)
    link = (stats.get("replication") or {}).get(other_cluster)
    return TopicFacts(
        topic,
        storage_bytes=stats.get("storageSize", 0),
        backlog_bytes=stats.get("backlogSize", 0),
        backlog_age_s=None if age < 0 else age,
        subscriptions=tuple(_subscription(name, each) for name, each in sorted(subscriptions.items())),
        connections=Counter(each.get("clientVersion") or UNKNOWN_VERSION for each in clients),
        exclusive_producers=sum(each.get("accessMode", "Shared") != "Shared" for each in publishers),
        open_transactions=stats.get("ongoingTxnCount", 0),
        is_compacted=(stats.get("compaction") or {}).get("lastCompactionSucceedTimestamp", 0) > 0,
        link=None if link is None else LinkFacts(bool(link.get("connected")), link.get("parkedReason")),
    )


def _subscription(name: str, stats: Json) -> SubscriptionFacts:
    return SubscriptionFacts(
        name,
        is_durable=stats.get("isDurable", True),
        is_replicated=stats.get("isReplicated", False),
        unavailable=dict(stats.get("progressUnavailable") or {}),
    )


class PolicyFacts:
    """The policies of the source's namespaces and topics, which the target will have."""

    def __init__(self, namespaces: Mapping[str, Json], topics: Mapping[str, Json]) -> None:
        """Keep the documents by name: Policies of namespaces, TopicPolicies of topics."""
        self._namespaces = namespaces
        self._topics = topics

    def of(self, topic: TopicName, in_namespace: str, in_topic: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the policy of a topic that has policies, by its fields; None: neither level sets it."""
        own = self._topics.get(str(topic), {}).get(in_topic)
        return self._namespaces.get(str(topic.namespace_name), {}).get(in_namespace) if own is None else own

    def quota(self, topic: TopicName, kind: str) -> Json | None:
        """Return the BacklogQuota of a type that applies to a topic; None: neither level sets it."""
        levels = (
            self._topics.get(str(topic), {}).get("backLogQuotaMap"),
            self._namespaces.get(str(topic.namespace_name), {}).get("backlog_quota_map"),
        )
        return next((level[kind] for level in levels if level and level.get(kind)), None)

    def clusters(self, topic: TopicName) -> list[str]:
        """Return the clusters that replicate a topic."""
        found: list[str] = self.of(topic, "replication_clusters", "replicationClusters") or []
        return found
