"""The nouns of the admin API, as a client sees them."""

from __future__ import annotations

from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from magnetar.admin.paths import (
    cluster_path,
    namespace_path,
    owner_path,
    relative_path,
    subscription_path,
    tenant_path,
    topic_path,
)
from magnetar.admin.peeked_entry import PeekedEntry
from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.wire.connection import MAGNETAR_VERSION_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.admin.connection import Connection

Json = dict[str, Any]

_BEYOND_THE_END = "Message not found"


class Noun:
    """A part of the API."""

    def __init__(self, connection: Connection) -> None:
        """Speak through ``connection``."""
        self._http = connection


class Clusters(Noun):
    """The clusters that a cluster knows."""

    def names(self) -> list[str]:
        """All of them."""
        return list(self._http.get("/admin/v2/clusters"))

    def get(self, name: str) -> Json:
        """How to reach one: ClusterData."""
        return dict(self._http.get(cluster_path(name)))

    def create(self, name: str, data: Json) -> None:
        """Make one known."""
        self._http.put(cluster_path(name), data)

    def update(self, name: str, data: Json) -> None:
        """Replace what is known of one."""
        self._http.post(cluster_path(name), data)

    def delete(self, name: str) -> None:
        """Forget one."""
        self._http.delete(cluster_path(name))


class Tenants(Noun):
    """The tenants."""

    def names(self) -> list[str]:
        """All of them."""
        return list(self._http.get("/admin/v2/tenants"))

    def get(self, name: str) -> Json:
        """One: TenantInfo."""
        return dict(self._http.get(tenant_path(name)))

    def create(self, name: str, allowed_clusters: Sequence[str], admin_roles: Sequence[str] = ()) -> None:
        """Create one whose namespaces may live in ``allowed_clusters``."""
        self._http.put(tenant_path(name), {"adminRoles": list(admin_roles), "allowedClusters": list(allowed_clusters)})

    def update(self, name: str, allowed_clusters: Sequence[str], admin_roles: Sequence[str] = ()) -> None:
        """Replace one's clusters and roles."""
        self._http.post(tenant_path(name), {"adminRoles": list(admin_roles), "allowedClusters": list(allowed_clusters)})

    def delete(self, name: str) -> None:
        """Delete one that has no namespaces."""
        self._http.delete(tenant_path(name))


class Namespaces(Noun):
    """The namespaces and their policies."""

    def of_tenant(self, tenant: str) -> list[NamespaceName]:
        """Those of ``tenant``."""
        return list(map(NamespaceName.parse, self._http.get(f"/admin/v2/namespaces/{quote(tenant, safe='')}")))

    def policies(self, namespace: NamespaceName) -> Json:
        """All policies."""
        return dict(self._http.get(namespace_path(namespace)))

    def create(self, namespace: NamespaceName, clusters: Sequence[str] = (), bundles: int = 0) -> None:
        """Create; without ``clusters`` it lives in the cluster asked, 0 bundles is the cluster's default."""
        policies = {"replication_clusters": list(clusters), "bundles": {"numBundles": bundles} if bundles else None}
        self._http.put(namespace_path(namespace), {name: value for name, value in policies.items() if value})

    def delete(self, namespace: NamespaceName) -> None:
        """Delete one that has no topics."""
        self._http.delete(namespace_path(namespace))

    def clusters(self, namespace: NamespaceName) -> list[str]:
        """The clusters that its topics are replicated between."""
        return list(self._http.get(f"{namespace_path(namespace)}/replication"))

    def set_clusters(self, namespace: NamespaceName, clusters: Sequence[str]) -> None:
        """Replicate its topics between ``clusters``; leaving the cluster asked out removes its topics there."""
        self._http.post(f"{namespace_path(namespace)}/replication", list(clusters))


class Policy(Enum):
    """A policy that a namespace and a topic may set: its names in their paths."""

    RETENTION = ("retention", "retention")
    MESSAGE_TTL = ("messageTTL", "messageTTL")
    DEDUPLICATION = ("deduplication", "deduplicationEnabled")
    DEDUPLICATION_SNAPSHOT_INTERVAL = ("deduplicationSnapshotInterval", "deduplicationSnapshotInterval")
    DELAYED_DELIVERY = ("delayedDelivery", "delayedDelivery")
    PAUSE_ON_ACK_STATE = ("dispatcherPauseOnAckStatePersistent", "dispatcherPauseOnAckStatePersistent")
    REPLICATE_SUBSCRIPTION_STATE = ("replicateSubscriptionState", "replicateSubscriptionState")
    MAX_AT_RISK_MESSAGES = ("maxAtRiskMessages", "maxAtRiskMessages")
    MAX_AT_RISK_SECONDS = ("maxAtRiskSeconds", "maxAtRiskSeconds")
    AT_RISK_COPIES = ("atRiskCopies", "atRiskCopies")
    AT_RISK_ABSENCE_SECONDS = ("atRiskAbsenceSeconds", "atRiskAbsenceSeconds")
    REPLICATED_SUBSCRIPTIONS_ALLOWED = ("replicatedSubscriptionsAllowed", "replicatedSubscriptionsAllowed")
    REPLICATED_SUBSCRIPTION_SYNC = ("replicatedSubscriptionSync", "replicatedSubscriptionSync")
    REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY = (
        "replicatedSubscriptionsSnapshotFrequencyMillis",
        "replicatedSubscriptionsSnapshotFrequencyMillis",
    )
    REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER = (
        "replicatedSubscriptionActiveCluster",
        "replicatedSubscriptionActiveCluster",
    )

    @property
    def path(self) -> str:
        """The last part of a namespace's path to it."""
        return self.value[0]

    @property
    def topic_path(self) -> str:
        """The last part of a topic's path to it."""
        return self.value[1]


class Policies(Noun):
    """Policies of namespaces and of topics; a topic's goes before its namespace's."""

    def get(self, owner: NamespaceName | TopicName, policy: Policy, *, applied: bool = False) -> Any:  # noqa: ANN401
        """What the owner has set, None if nothing; ``applied``: what holds for a topic, whoever set it."""
        return self._http.get(_policy_path(owner, policy), **({"applied": True} if applied else {}))

    def set(self, owner: NamespaceName | TopicName, policy: Policy, value: object = None) -> None:
        """Set one; its value is of the policy's own kind."""
        if policy is Policy.MESSAGE_TTL and isinstance(owner, TopicName) and isinstance(value, int):
            self._http.post(_policy_path(owner, policy), messageTTL=value)
        else:
            self._http.post(_policy_path(owner, policy), value)

    def set_retention(self, owner: NamespaceName | TopicName, *, minutes: int, megabytes: int) -> None:
        """Keep acknowledged messages up to both limits; -1 is no limit, 0 in both keeps none."""
        retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        self.set(owner, Policy.RETENTION, retention)

    def remove(self, owner: NamespaceName | TopicName, policy: Policy) -> None:
        """Go back to what holds for the level above."""
        self._http.delete(_policy_path(owner, policy))

    def backlog_quotas(self, owner: NamespaceName | TopicName, *, applied: bool = False) -> Json:
        """BacklogQuota by type, ``destination_storage`` and ``message_age``."""
        parameters = {"applied": True} if applied else {}
        return dict(self._http.get(f"{owner_path(owner)}/backlogQuotaMap", **parameters))

    def set_backlog_quota(
        self, owner: NamespaceName | TopicName, kind: str, policy: str, *, limit_size: int = -1, limit_time: int = -1
    ) -> None:
        """Act by ``policy`` on a backlog of ``limit_size`` bytes, or with a message ``limit_time`` seconds old."""
        quota = {"limitSize": limit_size, "limitTime": limit_time, "policy": policy}
        self._http.post(f"{owner_path(owner)}/backlogQuota", quota, backlogQuotaType=kind)

    def remove_backlog_quota(self, owner: NamespaceName | TopicName, kind: str) -> None:
        """Take the quota of a type away."""
        self._http.delete(f"{owner_path(owner)}/backlogQuota", backlogQuotaType=kind)


class Topics(Noun):
    """The persistent topics."""

    def of_namespace(self, namespace: NamespaceName) -> list[TopicName]:
        """Those of ``namespace``, partitions included."""
        return list(map(TopicName.parse, self._http.get(f"/admin/v2/persistent/{namespace}")))

    def partitioned_of_namespace(self, namespace: NamespaceName) -> list[TopicName]:
        """The partitioned topics of ``namespace``."""
        return list(map(TopicName.parse, self._http.get(f"/admin/v2/persistent/{namespace}/partitioned")))

    def create(self, topic: TopicName, properties: Mapping[str, str] | None = None) -> None:
        """Create a topic without partitions."""
        self._http.put(topic_path(topic), dict(properties or {}))

    def delete(self, topic: TopicName, *, force: bool = False) -> None:
        """Delete one; ``force`` disconnects its clients."""
        self._http.delete(topic_path(topic), force=force)

    def unload(self, topic: TopicName) -> None:
        """Close it and disconnect its clients, which come back."""
        self._http.put(f"{topic_path(topic)}/unload")

    def partitions(self, topic: TopicName) -> int:
        """How many partitions; 0 for a topic without."""
        return int(self._http.get(f"{topic_path(topic)}/partitions")["partitions"])

    def create_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Create a partitioned topic."""
        self._http.put(f"{topic_path(topic)}/partitions", partitions)

    def update_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Add partitions, up to ``partitions``."""
        self._http.post(f"{topic_path(topic)}/partitions", partitions)

    def delete_partitioned(self, topic: TopicName, *, force: bool = False) -> None:
        """Delete a partitioned topic and its partitions."""
        self._http.delete(f"{topic_path(topic)}/partitions", force=force)

    def stats(self, topic: TopicName, *, precise_backlog: bool = False, earliest_time_in_backlog: bool = False) -> Json:
        """TopicStats."""
        return dict(
            self._http.get(
                f"{topic_path(topic)}/stats",
                getPreciseBacklog=precise_backlog,
                getEarliestTimeInBacklog=earliest_time_in_backlog,
            )
        )

    def partitioned_stats(self, topic: TopicName, *, per_partition: bool = True) -> Json:
        """The sum of the partitions' TopicStats, and each of them under ``partitions``."""
        return dict(self._http.get(f"{topic_path(topic)}/partitioned-stats", perPartition=per_partition))

    def internal_stats(self, topic: TopicName) -> Json:
        """PersistentTopicInternalStats."""
        return dict(self._http.get(f"{topic_path(topic)}/internalStats"))

    def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        """Let the link to ``cluster`` go past the damaged entries at which it has stopped, up to ``through``."""
        data = {"ledgerId": through.ledger_id, "entryId": through.entry_id}
        self._http.post(f"{topic_path(topic)}/replication/{quote(cluster, safe='')}/skipEntries", data)

    def begin_snapshot(self, topic: TopicName, without: Sequence[str] = ()) -> None:
        """Begin a snapshot for replicated subscriptions now, without some clusters."""
        self._http.post(f"{topic_path(topic)}/replicatedSubscriptionSnapshot", list(without))

    def last_message_id(self, topic: TopicName) -> Json:
        """The newest message's id."""
        return dict(self._http.get(f"{topic_path(topic)}/lastMessageId"))

    def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> Json:
        """The id of the first message published at or after the time."""
        return dict(self._http.get(f"{topic_path(topic)}/messageid/{timestamp_ms}"))

    def lookup(self, topic: TopicName) -> Json:
        """Where clients of the topic connect: ``brokerUrl`` and ``httpUrl``."""
        return dict(self._http.get(f"/lookup/v2/topic/{relative_path(topic)}"))


class Subscriptions(Noun):
    """The subscriptions of topics; of all its partitions, where a topic has some."""

    def names(self, topic: TopicName) -> list[str]:
        """All of them."""
        return list(self._http.get(f"{topic_path(topic)}/subscriptions"))

    def create(
        self, topic: TopicName, subscription: str, position: Position = LATEST, *, replicated: bool = False
    ) -> None:
        """Create one whose first message is at or after ``position``; EARLIEST and LATEST are valid."""
        named = {EARLIEST: "earliest", LATEST: "latest"}
        start = named.get(position) or {"ledgerId": position.ledger_id, "entryId": position.entry_id}
        self._http.put(subscription_path(topic, subscription), start, replicated=replicated)

    def delete(self, topic: TopicName, subscription: str, *, force: bool = False) -> None:
        """Delete one; ``force`` disconnects its consumers."""
        self._http.delete(subscription_path(topic, subscription), force=force)

    def skip(self, topic: TopicName, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` unacknowledged entries."""
        self._http.post(f"{subscription_path(topic, subscription)}/skip/{count}")

    def skip_all(self, topic: TopicName, subscription: str) -> None:
        """Acknowledge everything."""
        self._http.post(f"{subscription_path(topic, subscription)}/skip_all")

    def reset_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        """Go to the first entry published at or after the time."""
        self._http.post(f"{subscription_path(topic, subscription)}/resetcursor/{timestamp_ms}")

    def reset(self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool = False) -> None:
        """Go to ``position``, or after it; EARLIEST and LATEST are valid."""
        data = {"ledgerId": position.ledger_id, "entryId": position.entry_id, "isExcluded": is_excluded}
        self._http.post(f"{subscription_path(topic, subscription)}/resetcursor", data)

    def expire(self, topic: TopicName, subscription: str, seconds: int) -> None:
        """Acknowledge all entries published more than ``seconds`` ago."""
        self._http.post(f"{subscription_path(topic, subscription)}/expireMessages/{seconds}")

    def replicated(self, topic: TopicName, subscription: str) -> dict[str, bool]:
        """Whether its progress is carried to the other clusters, by topic or partition."""
        return dict(self._http.get(f"{subscription_path(topic, subscription)}/replicatedSubscriptionStatus"))

    def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        """Start or stop to carry its progress to the other clusters."""
        self._http.post(f"{subscription_path(topic, subscription)}/replicatedSubscriptionStatus", replicated)

    def protection(self, owner: NamespaceName | TopicName) -> dict[str, dict[str, Json]]:
        """How well off subscriptions are towards the other clusters, by topic and name: SubscriptionProtection."""
        return dict(self._http.get(f"{owner_path(owner)}/subscriptionProtection"))

    def peek(self, topic: TopicName, subscription: str, count: int) -> list[PeekedEntry]:
        """Up to ``count`` unacknowledged entries, the oldest first; nothing is acknowledged."""
        found: list[PeekedEntry] = []
        while len(found) < count:
            try:
                path = f"{subscription_path(topic, subscription)}/position/{len(found) + 1}"
                found.append(PeekedEntry.of(self._http.send("GET", path)))
            except AdminError as error:
                # Beyond the last entry; a subscription that is not there says so for the first.
                if error.status is not HTTPStatus.NOT_FOUND or str(error) != _BEYOND_THE_END:
                    raise
                break
        return found


class Brokers(Noun):
    """The broker that answers."""

    def of_cluster(self, cluster: str) -> list[str]:
        """The live brokers of ``cluster``, as host:port."""
        return list(self._http.get(f"/admin/v2/brokers/{quote(cluster, safe='')}"))

    def leader(self) -> Json:
        """The leader: ``serviceUrl`` and ``brokerId``."""
        return dict(self._http.get("/admin/v2/brokers/leaderBroker"))

    def check_health(self) -> None:
        """Return if the broker can store and serve messages."""
        self._http.send("GET", "/admin/v2/brokers/health")

    def version(self) -> str:
        """Its release."""
        return self._http.send("GET", "/admin/v2/brokers/version").text

    def is_magnetar(self) -> bool:
        """Whether the cluster is one of Magnetar's, which says so with every answer."""
        response = self._http.send("GET", "/admin/v2/brokers/version")
        return str(response.headers.get("server", "")).startswith(MAGNETAR_VERSION_PREFIX)

    def runtime_configuration(self) -> dict[str, str]:
        """Every setting in effect."""
        return dict(self._http.get("/admin/v2/brokers/configuration/runtime"))

    def metrics(self) -> str:
        """Prometheus text."""
        return self._http.send("GET", "/metrics/").text


def _policy_path(owner: NamespaceName | TopicName, policy: Policy) -> str:
    return f"{owner_path(owner)}/{policy.topic_path if isinstance(owner, TopicName) else policy.path}"
