"""What a change of a namespace or a tenant puts out of reach, here and in other clusters."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.cli.states import topic_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.base.names import NamespaceName, TopicName

TIMEOUT_S = 10.0
"""Timeout of a request to another cluster, in seconds."""

TOPICS_MAX = 10
"""Maximum number of topics of a cluster whose data are shown."""


def synchronized_with(client: AdminClient) -> list[str]:
    """Return the other clusters that a deletion reaches; none if the synchronizer is off, or the change is local."""
    if client.keeps_changes_local:
        return []
    try:
        client.metadata_sync.status()
    except AdminError:
        return []
    own = client.brokers.runtime_configuration()["clusterName"]
    return [name for name in client.clusters.names() if name != own]


def stranded_in(client: AdminClient, clusters: Iterable[str], namespaces: Iterable[NamespaceName]) -> Iterator[str]:
    """Yield a line for each topic with data of ``namespaces`` in other clusters, up to TOPICS_MAX of each.

    A cluster that does not answer has a line of its own.
    """
    wanted = list(namespaces)
    for name in clusters:
        try:
            url = client.clusters.get(name).get("serviceUrl")
            if url is None:
                yield f"{name}: its topics are unknown, because it is registered without a serviceUrl"
                continue
            with AdminClient(url, timeout_s=TIMEOUT_S) as other:
                yield from (f"{name}: {line}" for line in _in(other, wanted))
        except (AdminError, ClusterUnreachableError) as error:
            yield f"{name}: its topics are unknown: {error}"


def namespaces_in(client: AdminClient, clusters: Iterable[str], tenant: str) -> list[NamespaceName]:
    """Return the namespaces that a tenant has in other clusters, as far as these answer."""
    found: set[NamespaceName] = set()
    for name in clusters:
        try:
            url = client.clusters.get(name).get("serviceUrl")
            if url is not None:
                with AdminClient(url, timeout_s=TIMEOUT_S) as other:
                    found.update(other.namespaces.of_tenant(tenant))
        except (AdminError, ClusterUnreachableError):
            continue  # stranded_in has a line for it
    return sorted(found)


def _in(client: AdminClient, namespaces: Iterable[NamespaceName]) -> Iterator[str]:
    for namespace in namespaces:
        topics = _topics(client, namespace)
        for topic in topics[:TOPICS_MAX]:
            state = topic_state(client, topic, partitioned=False)
            if state is not None:
                yield f"{topic} becomes unreachable: {_words(state)}"
        if len(topics) > TOPICS_MAX:
            yield f"{len(topics) - TOPICS_MAX} further topics of {namespace} become unreachable"


def _topics(client: AdminClient, namespace: NamespaceName) -> list[TopicName]:
    try:
        return client.topics.of_namespace(namespace)
    except AdminError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED):
            return []  # the cluster does not have the namespace
        raise


def _words(state: dict[str, object]) -> str:
    if "unknown" in state:
        return f"its contents are unknown: {state['unknown']}"
    backlogs = state["backlogs"]
    assert isinstance(backlogs, dict)
    waiting = [f"{name} has {count:,} unacknowledged entries" for name, count in backlogs.items() if count]
    return ", ".join([f"{state['storageSize']:,} bytes", *waiting])
