"""Nouns of the client: clusters, tenants, namespaces, topics, subscriptions, brokers."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.admin.models.peeked_entry import PeekedEntry
from magnetar.admin.nouns.noun import Json, Noun
from magnetar.admin.paths import (
    cluster_path,
    namespace_path,
    owner_path,
    relative_path,
    subscription_path,
    tenant_path,
    topic_path,
)
from magnetar.base.errors import AdminError
from magnetar.base.names import PERSISTENT, NamespaceName, TopicName
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.security.exposure import HEADER
from magnetar.wire.connection import MAGNETAR_VERSION_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_BEYOND_THE_END = "Message not found"


class Clusters(Noun):
    """Registered clusters."""

    def names(self) -> list[str]:
        """Return the names."""
        return list(self._http.get("/admin/v2/clusters"))

    def get(self, name: str) -> Json:
        """Return the ClusterData of a cluster."""
        return dict(self._http.get(cluster_path(name)))

    def create(self, name: str, data: Json) -> None:
        """Register a cluster."""
        self._http.put(cluster_path(name), data)

    def update(self, name: str, data: Json) -> None:
        """Replace the ClusterData of a cluster."""
        self._http.post(cluster_path(name), data)

    def delete(self, name: str) -> None:
        """Delete the registration of a cluster."""
        self._http.delete(cluster_path(name))


class Tenants(Noun):
    """The tenants."""

    def names(self) -> list[str]:
        """Return the names."""
        return list(self._http.get("/admin/v2/tenants"))

    def get(self, name: str) -> Json:
        """Return the TenantInfo of a tenant."""
        return dict(self._http.get(tenant_path(name)))

    def create(self, name: str, allowed_clusters: Sequence[str], admin_roles: Sequence[str] = ()) -> None:
        """Create a tenant whose namespaces may use ``allowed_clusters``."""
        self._http.put(tenant_path(name), {"adminRoles": list(admin_roles), "allowedClusters": list(allowed_clusters)})

    def update(self, name: str, allowed_clusters: Sequence[str], admin_roles: Sequence[str] = ()) -> None:
        """Replace the clusters and roles of a tenant."""
        self._http.post(tenant_path(name), {"adminRoles": list(admin_roles), "allowedClusters": list(allowed_clusters)})

    def delete(self, name: str) -> None:
        """Delete a tenant; refused if it has namespaces."""
        self._http.delete(tenant_path(name))


class Namespaces(Noun):
    """Namespaces and their policies."""

    def of_tenant(self, tenant: str) -> list[NamespaceName]:
        """Return the namespaces of ``tenant``."""
        return list(map(NamespaceName.parse, self._http.get(f"/admin/v2/namespaces/{quote(tenant, safe='')}")))

    def policies(self, namespace: NamespaceName) -> Json:
        """Return all policies of a namespace."""
        return dict(self._http.get(namespace_path(namespace)))

    def create(
        self, namespace: NamespaceName, clusters: Sequence[str] = (), bundles: int | Json = 0, **policies: object
    ) -> None:
        """Create a namespace; no ``clusters``: only this cluster; 0 bundles: the cluster's default."""
        divided = bundles if isinstance(bundles, dict) else {"numBundles": bundles} if bundles else None
        policies |= {"replication_clusters": list(clusters), "bundles": divided}
        self._http.put(namespace_path(namespace), {name: value for name, value in policies.items() if value})

    def delete(self, namespace: NamespaceName) -> None:
        """Delete a namespace; refused if it has topics."""
        self._http.delete(namespace_path(namespace))

    def auto_updates_schemas(self, namespace: NamespaceName) -> bool:
        """Return whether clients may bring new schemas."""
        return bool(self._http.get(f"{namespace_path(namespace)}/isAllowAutoUpdateSchema"))

    def set_auto_update_of_schemas(self, namespace: NamespaceName, *, allowed: bool) -> None:
        """Allow or forbid clients to bring new schemas."""
        self._http.post(f"{namespace_path(namespace)}/isAllowAutoUpdateSchema", allowed)

    def clusters(self, namespace: NamespaceName) -> list[str]:
        """Return the clusters that replicate a namespace."""
        return list(self._http.get(f"{namespace_path(namespace)}/replication"))

    def set_clusters(self, namespace: NamespaceName, clusters: Sequence[str]) -> None:
        """Set the clusters that replicate a namespace; others get no further messages."""
        self._http.post(f"{namespace_path(namespace)}/replication", list(clusters))

    def bundles(self, namespace: NamespaceName) -> Json:
        """Return the division into bundles: ``boundaries`` and ``numBundles``."""
        return dict(self._http.get(f"{namespace_path(namespace)}/bundles"))

    def unload(self, namespace: NamespaceName, bundle: str | None = None) -> None:
        """Close the topics of the namespace, or of one bundle, and disconnect their clients, which reconnect."""
        owner = namespace_path(namespace) if bundle is None else _bundle_path(namespace, bundle)
        self._http.put(f"{owner}/unload")

    def split_bundle(
        self, namespace: NamespaceName, bundle: str, *, algorithm: str, positions: Sequence[int], unload: bool
    ) -> None:
        """Divide a bundle, given by its range or LARGEST; ``positions`` are for one of the algorithms only."""
        path = f"{_bundle_path(namespace, bundle)}/split"
        self._http.put(path, list(positions), splitAlgorithmName=algorithm, unload=unload)


class Topics(Noun):
    """Persistent topics."""

    def of_namespace(self, namespace: NamespaceName, **flags: bool) -> list[TopicName]:
        """Return the topics of ``namespace`` and partitions; with ``includeSystemTopic`` those of the broker, too."""
        return list(map(TopicName.parse, self._http.get(f"/admin/v2/persistent/{namespace}", **flags)))

    def partitioned_of_namespace(self, namespace: NamespaceName, domain: str = PERSISTENT) -> list[TopicName]:
        """Return the partitioned topics of ``namespace``."""
        return list(map(TopicName.parse, self._http.get(f"/admin/v2/{domain}/{namespace}/partitioned")))

    def create(self, topic: TopicName, properties: Mapping[str, str] | None = None) -> None:
        """Create a topic without partitions."""
        self._http.put(topic_path(topic), dict(properties or {}))

    def delete(self, topic: TopicName, *, force: bool = False) -> None:
        """Delete a topic; ``force`` disconnects its clients."""
        self._http.delete(topic_path(topic), force=force)

    def unload(self, topic: TopicName) -> None:
        """Close a topic and disconnect its clients, which reconnect."""
        self._http.put(f"{topic_path(topic)}/unload")

    def partitions(self, topic: TopicName) -> int:
        """Return the number of partitions; 0 if the topic is not partitioned."""
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
        """Return the TopicStats of a topic."""
        return dict(
            self._http.get(
                f"{topic_path(topic)}/stats",
                getPreciseBacklog=precise_backlog,
                getEarliestTimeInBacklog=earliest_time_in_backlog,
            )
        )

    def partitioned_stats(self, topic: TopicName, *, per_partition: bool = True) -> Json:
        """Return the sum of the partitions' TopicStats, and each of them under ``partitions``."""
        return dict(self._http.get(f"{topic_path(topic)}/partitioned-stats", perPartition=per_partition))

    def internal_stats(self, topic: TopicName) -> Json:
        """Return the PersistentTopicInternalStats of a topic."""
        return dict(self._http.get(f"{topic_path(topic)}/internalStats"))

    def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        """Let the link to ``cluster`` skip the damaged entries at which it has stopped, through ``through``."""
        data = {"ledgerId": through.ledger_id, "entryId": through.entry_id}
        self._http.post(f"{topic_path(topic)}/replication/{quote(cluster, safe='')}/skipEntries", data)

    def begin_snapshot(self, topic: TopicName, without: Sequence[str] = ()) -> None:
        """Start a snapshot for replicated subscriptions now, and leave out the clusters ``without``."""
        self._http.post(f"{topic_path(topic)}/replicatedSubscriptionSnapshot", list(without))

    def last_message_id(self, topic: TopicName) -> Json:
        """Return the id of the newest message."""
        return dict(self._http.get(f"{topic_path(topic)}/lastMessageId"))

    def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> Json:
        """Return the id of the first message published at or after a time."""
        return dict(self._http.get(f"{topic_path(topic)}/messageid/{timestamp_ms}"))

    def read_entry(self, topic: TopicName, position: Position) -> PeekedEntry:
        """Return the entry at a position."""
        path = f"{topic_path(topic)}/ledger/{position.ledger_id}/entry/{position.entry_id}"
        return PeekedEntry.of(self._http.send("GET", path))

    def lookup(self, topic: TopicName) -> Json:
        """Return the URLs of the topic's broker: ``brokerUrl`` and ``httpUrl``."""
        return dict(self._http.get(f"/lookup/v2/topic/{relative_path(topic)}"))


class Subscriptions(Noun):
    """Subscriptions of a topic, or of all partitions of a partitioned topic."""

    def names(self, topic: TopicName) -> list[str]:
        """Return the names."""
        return list(self._http.get(f"{topic_path(topic)}/subscriptions"))

    def create(
        self, topic: TopicName, subscription: str, position: Position = LATEST, *, replicated: bool = False
    ) -> None:
        """Create a subscription whose first message is at or after ``position``; EARLIEST and LATEST are valid."""
        named = {EARLIEST: "earliest", LATEST: "latest"}
        start = named.get(position) or {"ledgerId": position.ledger_id, "entryId": position.entry_id}
        self._http.put(subscription_path(topic, subscription), start, replicated=replicated)

    def delete(self, topic: TopicName, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription; ``force`` disconnects its consumers."""
        self._http.delete(subscription_path(topic, subscription), force=force)

    def skip(self, topic: TopicName, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` unacknowledged entries."""
        self._http.post(f"{subscription_path(topic, subscription)}/skip/{count}")

    def skip_all(self, topic: TopicName, subscription: str) -> None:
        """Acknowledge all entries that the topic contains now."""
        self._http.post(f"{subscription_path(topic, subscription)}/skip_all")

    def reset_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        """Move a subscription to the first entry published at or after a time."""
        self._http.post(f"{subscription_path(topic, subscription)}/resetcursor/{timestamp_ms}")

    def reset(self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool = False) -> None:
        """Move a subscription to ``position``, or after it if ``is_excluded``; EARLIEST and LATEST are valid."""
        data = {"ledgerId": position.ledger_id, "entryId": position.entry_id, "isExcluded": is_excluded}
        self._http.post(f"{subscription_path(topic, subscription)}/resetcursor", data)

    def expire(self, topic: TopicName, subscription: str, seconds: int) -> None:
        """Acknowledge all entries older than ``seconds``."""
        self._http.post(f"{subscription_path(topic, subscription)}/expireMessages/{seconds}")

    def replicated(self, topic: TopicName, subscription: str) -> dict[str, bool]:
        """Return whether the subscription is replicated, by topic or partition."""
        return dict(self._http.get(f"{subscription_path(topic, subscription)}/replicatedSubscriptionStatus"))

    def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        """Start or stop the replication of a subscription."""
        self._http.post(f"{subscription_path(topic, subscription)}/replicatedSubscriptionStatus", replicated)

    def set_properties(self, topic: TopicName, subscription: str, properties: Mapping[str, str]) -> None:
        """Replace the properties of a subscription."""
        self._http.put(f"{subscription_path(topic, subscription)}/properties", dict(properties))

    def acknowledgements(self, topic: TopicName, subscription: str, after: Position = EARLIEST) -> Json:
        """Return a page of the AcknowledgementState after a position; the first page without it."""
        place = {} if after == EARLIEST else {"after": str(after)}
        return dict(self._http.get(f"{subscription_path(topic, subscription)}/acknowledgements", **place))

    def protection(self, owner: NamespaceName | TopicName) -> dict[str, dict[str, Json]]:
        """Return the SubscriptionProtection of subscriptions, by topic and name."""
        return dict(self._http.get(f"{owner_path(owner)}/subscriptionProtection"))

    def peek(self, topic: TopicName, subscription: str, count: int) -> list[PeekedEntry]:
        """Return up to ``count`` unacknowledged entries, the oldest first, without acknowledging them.

        Without the subscription, they are those that a new one would get from the beginning of the topic.
        """
        found: list[PeekedEntry] = []
        while len(found) < count:
            try:
                path = f"{subscription_path(topic, subscription)}/position/{len(found) + 1}"
                found.append(PeekedEntry.of(self._http.send("GET", path)))
            except AdminError as error:
                # There is no further entry. For a missing topic, the first request fails.
                if error.status is not HTTPStatus.NOT_FOUND or str(error) != _BEYOND_THE_END:
                    raise
                break
        return found


class Brokers(Noun):
    """The broker behind the admin URL."""

    def of_cluster(self, cluster: str) -> list[str]:
        """Return the live brokers of ``cluster``, as host:port."""
        return list(self._http.get(f"/admin/v2/brokers/{quote(cluster, safe='')}"))

    def leader(self) -> Json:
        """Return the leader: ``serviceUrl`` and ``brokerId``."""
        return dict(self._http.get("/admin/v2/brokers/leaderBroker"))

    def check_health(self) -> list[str]:
        """Return the risks that the broker has found, if it can store and serve messages; raises AdminError otherwise.

        Apache Pulsar reports no risks.
        """
        return self._http.send("GET", "/admin/v2/brokers/health").headers.get_list(HEADER)

    def version(self) -> str:
        """Return the broker's version."""
        return self._http.send("GET", "/admin/v2/brokers/version").text

    def is_magnetar(self) -> bool:
        """Return whether the cluster runs Magnetar, which every answer states in a header."""
        response = self._http.send("GET", "/admin/v2/brokers/version")
        return str(response.headers.get("server", "")).startswith(MAGNETAR_VERSION_PREFIX)

    def runtime_configuration(self) -> dict[str, str]:
        """Return all settings in effect."""
        return dict(self._http.get("/admin/v2/brokers/configuration/runtime"))

    def raise_ledger_ids(self) -> Json:
        """Give new ledgers ids above those of all other clusters; return the ``lowest`` one."""
        return dict(self._http.send("POST", "/admin/v2/brokers/ledgerIds").json())

    def replication(self) -> Json:
        """Return ``LinkTotals`` by namespace and remote cluster; refused with 404 by Apache Pulsar."""
        return dict(self._http.get("/admin/v2/broker-stats/replication"))

    def metrics(self) -> str:
        """Return the metrics as Prometheus text."""
        return self._http.send("GET", "/metrics/").text


def _bundle_path(namespace: NamespaceName, bundle: str) -> str:
    return f"{namespace_path(namespace)}/{quote(bundle, safe='')}"
