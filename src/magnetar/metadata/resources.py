"""Typed access to clusters, tenants, namespaces and topics in a metadata store, at Pulsar's paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import quote_plus, unquote_plus

from magnetar.base.names import PERSISTENT, NamespaceName, TopicName
from magnetar.metadata.policies import (
    ClusterData,
    LocalPolicies,
    PartitionedTopicMetadata,
    Policies,
    TenantInfo,
    TopicPolicies,
)
from magnetar.metadata.routes.stored import Routes
from magnetar.metadata.stored.documents import Documents
from magnetar.metadata.stored.operations import DynamicConfiguration, FailureDomains, IsolationPolicies, ResourceQuotas
from magnetar.metadata.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from magnetar.metadata.awaiting import Commit
    from magnetar.metadata.store import Change, MetadataStore
    from magnetar.metadata.topic_names import Names

_CLUSTERS = "/admin/clusters"
_OWN_ADDRESSES = "/magnetar/own-addresses"
_LOCAL_POLICIES = "/admin/local-policies"
POLICIES = "/admin/policies"
"""Root of the tenants, and of the policies of their namespaces."""
PARTITIONED_TOPICS = "/admin/partitioned-topics"
"""Root of the partitioned topics; see ``topic_path``."""
TOPIC_POLICIES = "/admin/topic-policies"
"""Root of the policies of topics; see ``topic_path``."""
MANAGED_LEDGERS = "/managed-ledgers"
"""Root of the ledger lists of topics, and of their cursors; see ``managed_ledger_path``."""


class Clusters(Documents[str, ClusterData]):
    """The known clusters, including this one."""

    _kind = ClusterData

    def names(self) -> list[str]:
        """Return the names, sorted."""
        return self._store.children(_CLUSTERS)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call ``callback`` with a cluster's name after each change; returns a function that ends the watch."""
        return self._store.watch(_CLUSTERS, lambda change: callback(change.path.removeprefix(f"{_CLUSTERS}/")))

    def _path(self, key: str) -> str:
        return f"{_CLUSTERS}/{key}"


class OwnAddresses(Documents[str, ClusterData]):
    """The addresses of this cluster that the broker registered itself; not part of Pulsar's tree."""

    _kind = ClusterData

    def names(self) -> list[str]:
        """Return the names under which the broker registered itself, sorted."""
        return self._store.children(_OWN_ADDRESSES)

    def _path(self, key: str) -> str:
        return f"{_OWN_ADDRESSES}/{key}"


class Tenants(Documents[str, TenantInfo]):
    """The tenants."""

    _kind = TenantInfo

    def names(self) -> list[str]:
        """Return the names, sorted."""
        return self._store.children(POLICIES)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call ``callback`` with a tenant's name after each change; returns a function that ends the watch."""

        def changed(change: Change) -> None:
            tenant = change.path.removeprefix(f"{POLICIES}/")
            if "/" not in tenant:
                callback(tenant)

        return self._store.watch(POLICIES, changed)

    def _path(self, key: str) -> str:
        return f"{POLICIES}/{key}"


class Namespaces(Documents[NamespaceName, Policies]):
    """The namespaces and their policies."""

    _kind = Policies

    def of_tenant(self, tenant: str) -> list[NamespaceName]:
        """Return the namespaces of ``tenant``, sorted."""
        return [NamespaceName(tenant, name) for name in self._store.children(f"{POLICIES}/{tenant}")]

    def watch(self, callback: Callable[[NamespaceName], None]) -> Callable[[], None]:
        """Call ``callback`` with a namespace after a change of its policies; returns a function that ends the watch."""

        def changed(change: Change) -> None:
            tenant, separator, namespace = change.path.removeprefix(f"{POLICIES}/").partition("/")
            if separator:
                callback(NamespaceName(tenant, namespace))

        return self._store.watch(POLICIES, changed)

    def _path(self, key: NamespaceName) -> str:
        return f"{POLICIES}/{key}"


class LocalPoliciesOf(Documents[NamespaceName, LocalPolicies]):
    """The local policies of namespaces."""

    _kind = LocalPolicies

    def change(self, key: NamespaceName, **fields: object) -> Commit:
        """Set fields of the local policies of a namespace, which need not exist yet; None removes a field."""
        if self.exists(key):
            return self.update(key, lambda found: found.model_copy(update=fields))
        return self.create(key, LocalPolicies().model_copy(update=fields))

    def _path(self, key: NamespaceName) -> str:
        return f"{_LOCAL_POLICIES}/{key}"


class PartitionedTopics(Documents[TopicName, PartitionedTopicMetadata]):
    """Partitioned topics and their numbers of partitions."""

    _kind = PartitionedTopicMetadata

    def of_namespace(self, namespace: NamespaceName, domain: str = PERSISTENT) -> Iterator[TopicName]:
        """Yield the partitioned topics of ``namespace`` and ``domain``, in no particular order.

        Topics may come and go between two of them; those are yielded or not, and no topic is yielded twice.
        """
        for name in self._store.each_child(f"{PARTITIONED_TOPICS}/{namespace}/{domain}"):
            yield TopicName(domain, namespace.tenant, namespace.namespace, unquote_plus(name))

    def _path(self, key: TopicName) -> str:
        return topic_path(PARTITIONED_TOPICS, key)


class TopicPoliciesOf(Documents[TopicName, TopicPolicies]):
    """Policies of topics; a partition has those of its partitioned topic."""

    _kind = TopicPolicies

    def change(self, key: TopicName, **fields: object) -> Commit:
        """Set fields of a topic's policies, which need not exist yet; None removes a field.

        Raises BadVersionError after a concurrent change.
        """
        if self.exists(key):
            return self.update(key, lambda found: found.model_copy(update=fields))
        return self.create(key, TopicPolicies().model_copy(update=fields))

    def of_namespace(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the persistent topics of ``namespace`` that have policies, in no particular order."""
        for name in self._store.each_child(f"{TOPIC_POLICIES}/{namespace}/{PERSISTENT}"):
            yield TopicName(PERSISTENT, namespace.tenant, namespace.namespace, unquote_plus(name))

    async def forget(self, key: TopicName) -> None:
        """Delete the policies of a topic, if it has any; does nothing for a partition."""
        if key == key.partitioned_topic and self.exists(key):
            await self.delete(key)

    def watch(self, callback: Callable[[TopicName], None]) -> Callable[[], None]:
        """Call ``callback`` with a topic after each change of its policies; returns a function that ends the watch."""

        def changed(change: Change) -> None:
            tenant, namespace, domain, local_name = change.path.removeprefix(f"{TOPIC_POLICIES}/").split("/")
            callback(TopicName(domain, tenant, namespace, unquote_plus(local_name)))

        return self._store.watch(TOPIC_POLICIES, changed)

    def _path(self, key: TopicName) -> str:
        return topic_path(TOPIC_POLICIES, key.partitioned_topic)


class Topics:
    """The existing topics: those with a managed ledger. Partitions count as topics."""

    def __init__(self, store: MetadataStore) -> None:
        """Read from ``store``; the managed ledgers themselves are written by the package ``ledger``."""
        self._store = store
        self._names = TopicNames(store, MANAGED_LEDGERS)

    def of_namespace(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the persistent topics of ``namespace``, in no particular order.

        Topics may come and go between two of them; those are yielded or not, and no topic is yielded twice.
        """
        return self._names.each(namespace)

    def names_in_memory(self, namespace: NamespaceName) -> Names | None:
        """Return what ``reading_names`` would, if it needs no step; otherwise None."""
        return self._names.in_memory(namespace)

    def reading_names(self, namespace: NamespaceName) -> Generator[None, None, Names]:
        """Return the full names of the topics of ``namespace``, read in steps: see ``TopicNames.reading``."""
        return self._names.reading(namespace)

    def watch(self, callback: Callable[[NamespaceName], None]) -> Callable[[], None]:
        """Call ``callback`` with the namespace of a persistent topic that came or went; returns the end of the watch.

        ``names_in_memory`` and ``reading_names`` contain the change then.
        """

        def changed(change: Change) -> None:
            if change.replaced is not None and change.after is not None:
                return
            tenant, namespace, domain, name, *below = change.path.removeprefix(f"{MANAGED_LEDGERS}/").split("/")
            path = change.path.rpartition("/")[0]
            if domain == PERSISTENT and name and not (below and self._store.get(path) is not None):
                callback(NamespaceName(tenant, namespace))

        return self._store.watch(MANAGED_LEDGERS, changed)

    def all(self) -> Iterator[TopicName]:
        """Yield the persistent topics of all namespaces, including topics of which only cursors are left."""
        for tenant in self._store.children(MANAGED_LEDGERS):
            for namespace in self._store.children(f"{MANAGED_LEDGERS}/{tenant}"):
                yield from self.of_namespace(NamespaceName(tenant, namespace))

    def exists(self, topic: TopicName) -> bool:
        """Return whether ``topic`` has a managed ledger that is not being deleted."""
        stored = self._store.get(managed_ledger_path(topic))
        return stored is not None and stored.value != DELETED_TOPIC


@dataclass(frozen=True, slots=True)
class Resources:
    """All documents of the metadata store that administration uses."""

    clusters: Clusters
    tenants: Tenants
    namespaces: Namespaces
    partitioned_topics: PartitionedTopics
    topics: Topics
    topic_policies: TopicPoliciesOf
    own_addresses: OwnAddresses
    failure_domains: FailureDomains
    isolation_policies: IsolationPolicies
    resource_quotas: ResourceQuotas
    dynamic_configuration: DynamicConfiguration
    local_policies: LocalPoliciesOf
    routes: Routes

    @classmethod
    def over(cls, store: MetadataStore) -> Self:
        """Access all documents in ``store``."""
        return cls(
            Clusters(store),
            Tenants(store),
            Namespaces(store),
            PartitionedTopics(store),
            Topics(store),
            TopicPoliciesOf(store),
            OwnAddresses(store),
            FailureDomains(store),
            IsolationPolicies(store),
            ResourceQuotas(store),
            DynamicConfiguration(store),
            LocalPoliciesOf(store),
            Routes(store),
        )


DELETED_TOPIC = b'{"deleted": true}'
"""Value that replaces the ledger list of a topic during its deletion."""


def managed_ledger_path(topic: TopicName) -> str:
    """Return the path of the ledger list of ``topic``; the topic exists while the path has a value."""
    return topic_path(MANAGED_LEDGERS, topic)


def topic_path(root: str, topic: TopicName) -> str:
    """Return the path of ``topic`` below ``root``."""
    return f"{root}/{topic.namespace_name}/{topic.domain}/{quote_plus(topic.local_name)}"
