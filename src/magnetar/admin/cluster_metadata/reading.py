"""Reads the metadata of a cluster of Magnetar or Apache Pulsar through its admin API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from magnetar.admin.cluster_metadata.document import (
    EVERYTHING,
    MAGNETAR_POLICIES,
    SYSTEM_TOPIC_PREFIX,
    ClusterMetadata,
    OtherResource,
    Selection,
)
from magnetar.base.errors import AdminError
from magnetar.base.names import NON_PERSISTENT
from magnetar.metadata.policies import own_properties
from magnetar.metadata.policy.table import Policy
from magnetar.metasync.places import Resource
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metasync.units import Document

    Report = Callable[[str, int, int], None]
    """Is told how much was read: one of READ, the number so far, and the number of all."""

READ = ("namespaces", "topics")

REQUESTS_AT_ONCE = 8
"""Maximum number of requests in progress."""

_TOPIC_POLICIES_TOPIC = "__change_events"
"""Beginning of the names of the topics in which Apache Pulsar stores the policies of a namespace's topics."""

_ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.NOT_IMPLEMENTED)
"""Answers about something that was deleted meanwhile, or that the broker does not have."""

Item = TypeVar("Item")
Found = TypeVar("Found")
Arguments = ParamSpec("Arguments")


def read_metadata(
    client: AdminClient, selection: Selection = EVERYTHING, report: Report = lambda *_: None
) -> ClusterMetadata:
    """Return the metadata of a cluster, without those of the tenant ``pulsar`` and of topics of the broker itself.

    They are not of one moment: a change during the reading is contained or not. Raises AdminError or
    ClusterUnreachableError.
    """
    cluster = client.brokers.runtime_configuration()["clusterName"]
    found = ClusterMetadata(cluster, is_magnetar=client.brokers.is_magnetar())
    found.clusters |= {name: client.clusters.get(name) for name in sorted(client.clusters.names())}
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        _Reader(client, found, pool, report, selection).read()
    return found


def if_present(read: Callable[Arguments, Found], *arguments: Arguments.args, **flags: Arguments.kwargs) -> Found | None:
    """Return the result of a request; None if there is nothing at its path."""
    try:
        return read(*arguments, **flags)
    except AdminError as error:
        if error.status not in _ABSENT:
            raise
        return None


class _Reader:
    def __init__(
        self,
        client: AdminClient,
        found: ClusterMetadata,
        pool: ThreadPoolExecutor,
        report: Report,
        selection: Selection,
    ) -> None:
        self._selection = selection
        self._client = client
        self._found = found
        self._pool = pool
        self._report = report

    def read(self) -> None:
        client, selection = self._client, self._selection
        namespaces: list[NamespaceName] = []
        for tenant in sorted(filter(selection.has_tenant, client.tenants.names())):
            info = if_present(client.tenants.get, tenant)
            if info is not None:
                self._found.resources[Resource(ResourceType.TENANTS, tenant)] = info
                namespaces += if_present(client.namespaces.of_tenant, tenant) or ()
        wanted = sorted(filter(selection.has_namespace, namespaces))
        topics = [topic for found in self._each("namespaces", self._namespace, wanted) for topic in found]
        self._each("topics", self._topic, topics)

    def _each(self, what: str, read: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
        found = []
        for each in self._pool.map(read, items):
            found.append(each)
            self._report(what, len(found), len(items))
        return found

    def _namespace(self, namespace: NamespaceName) -> Iterable[tuple[TopicName, bool]]:
        """Read a namespace; return its topics, and whether they may have policies."""
        client = self._client
        policies = if_present(client.namespaces.policies, namespace)
        topics = if_present(client.topics.of_namespace, namespace, includeSystemTopic=True)
        partitioned = if_present(client.topics.partitioned_of_namespace, namespace)
        if policies is None or policies.get("deleted") or topics is None or partitioned is None:
            return []
        self._found.resources[Resource(ResourceType.NAMESPACES, str(namespace))] = _without_former_name(policies)
        placement = {
            "namespaceAntiAffinityGroup": if_present(client.placement.anti_affinity_group, namespace),
            "bookieAffinityGroup": if_present(client.placement.bookie_affinity_group, namespace),
        }
        if any(placement.values()):
            self._found.placements[namespace] = {name: value for name, value in placement.items() if value}
        not_stored = if_present(client.topics.partitioned_of_namespace, namespace, NON_PERSISTENT) or []
        have_policies = self._found.is_magnetar or any(
            topic.local_name.startswith(_TOPIC_POLICIES_TOPIC) for topic in topics
        )
        single = [topic for topic in topics if topic.partitioned_topic not in partitioned]
        return [
            (topic, have_policies)
            for topic in sorted({*single, *partitioned, *not_stored})
            if not topic.local_name.startswith(SYSTEM_TOPIC_PREFIX) and self._selection.has_topic(topic)
        ]

    def _topic(self, item: tuple[TopicName, bool]) -> None:
        (topic, may_have_policies), client = item, self._client
        try:
            partitions = if_present(client.topics.partitions, topic)
        except AdminError as error:
            if error.status != HTTPStatus.PRECONDITION_FAILED:
                raise
            other = OtherResource("topic of a namespace that the cluster does not serve", str(topic), str(error))
            self._found.others.append(other)
            return
        if partitions is None:
            return
        properties = own_properties((if_present(client.properties.of, topic) if topic.is_persistent else None) or {})
        if partitions:
            document: Document = {"partitions": partitions}
            if properties:
                document["properties"] = properties
            self._found.resources[Resource(ResourceType.TOPICS, str(topic))] = document
        else:
            self._found.topics.add(topic)
            if properties:
                self._found.properties[topic] = properties
        policies = self._policies(topic) if may_have_policies else {}
        policies = {name: value for name, value in policies.items() if value not in (None, {}, [])}
        if policies:
            self._found.resources[Resource(ResourceType.TOPIC_POLICIES, str(topic))] = policies
        schemas = if_present(client.schemas.all, topic)
        if schemas:
            self._found.schemas[topic] = schemas

    def _policies(self, topic: TopicName) -> Document:
        """Return the policies that a topic sets."""
        client = self._client
        if self._found.is_magnetar:
            return if_present(client.topic_documents.all, topic) or {}
        found: Document = {}
        for policy in Policy:
            if policy.topic is None or policy in MAGNETAR_POLICIES:
                continue
            value = if_present(client.policies.get, topic, policy)
            if value != policy.topic.unset:
                found[policy.topic.field] = value
            everywhere = if_present(client.policies.get, topic, policy, isGlobal=True)
            if everywhere not in (policy.topic.unset, value):
                self._note_global(topic, policy.topic.path, everywhere)
        found["backLogQuotaMap"] = quotas = if_present(client.policies.backlog_quotas, topic)
        everywhere = if_present(client.policies.backlog_quotas, topic, isGlobal=True)
        if everywhere not in (None, {}, quotas):
            self._note_global(topic, "backlogQuota", everywhere)
        for shadow in if_present(client.pulsar_resources.shadow_topics, topic) or ():
            self._found.others.append(OtherResource("shadow topic", str(topic), shadow))
        found["replicationClusters"] = if_present(client.topic_documents.clusters, topic)
        found["subscriptionPolicies"] = self._subscription_policies(topic)
        return found

    def _note_global(self, topic: TopicName, policy: str, value: object) -> None:
        """Note a policy for all clusters. Brokers ignore the flag for some policies, and answer the local one."""
        self._found.others.append(OtherResource("global policy of a topic", str(topic), f"{policy}: {value}"))

    def _subscription_policies(self, topic: TopicName) -> Mapping[str, Any]:
        client, found = self._client, {}
        try:
            names = if_present(client.subscriptions.names, topic) or ()
        except AdminError as error:  # Apache Pulsar loads the topic for this, which can fail
            other = OtherResource("subscriptions of a topic", str(topic), f"the source cannot list them: {error}")
            self._found.others.append(other)
            names = ()
        for name in names:
            rate = if_present(client.topic_documents.dispatch_rate, topic, name)
            if rate is not None:
                found[name] = {"dispatchRate": rate}
        return found


def _without_former_name(policies: Document) -> Document:
    """Return the policies of a namespace without the former name of ``topicDispatchRate``.

    Apache Pulsar sets both, and uses the former name for a cluster without a rate under the new one.
    """
    former = policies.get("clusterDispatchRate")
    rest = {name: value for name, value in policies.items() if name != "clusterDispatchRate"}
    return rest | {"topicDispatchRate": {**former, **(policies.get("topicDispatchRate") or {})}} if former else rest
