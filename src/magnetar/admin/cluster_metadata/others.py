"""Lists what Apache Pulsar has and Magnetar does not: functions, connectors, packages, resource groups, and so on."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.cluster_metadata.document import SYSTEM_TENANT, OtherResource
from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.admin.client import AdminClient
    from magnetar.admin.cluster_metadata.document import ClusterMetadata

_OF_NAMESPACES = {
    "functions": "function",
    "sinks": "sink",
    "sources": "source",
    "packages/function": "package",
    "packages/sink": "package",
    "packages/source": "package",
}
"""Paths of resources in namespaces, and what they are called."""

_SWITCHED_OFF = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.CONFLICT,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.NOT_IMPLEMENTED,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""Answers of a broker whose workers of functions, or whose packages, are switched off."""


def read_others(client: AdminClient, known: ClusterMetadata) -> Iterator[OtherResource]:
    """Yield what Magnetar does not have, for the namespaces and topics in ``known``.

    A list that the broker refuses is one of the results, with the reason, unless its service is switched off.
    """
    if SYSTEM_TENANT in client.tenants.names():
        yield OtherResource("tenant", SYSTEM_TENANT, "namespaces that the brokers create for themselves")
    resources = client.pulsar_resources
    yield from _listed("resource group", resources.resource_groups)
    yield from _listed("bookie", resources.bookies)
    yield from _listed("dynamic setting of the broker", resources.dynamic_settings)
    yield from _listed("failure domain", partial(resources.failure_domains, known.cluster))
    yield from _listed("namespace isolation policy", partial(resources.isolation_policies, known.cluster))
    namespaces = [NamespaceName.parse(each.name) for each in known.resources if each.kind is ResourceType.NAMESPACES]
    for path, kind in _OF_NAMESPACES.items():
        for namespace in namespaces:
            for each in _listed(kind, partial(resources.of_namespace, path, namespace)):
                yield each._replace(name=f"{namespace}/{each.name}" if each.name else str(namespace))


def _listed(kind: str, read: Callable[[], Iterable[str]]) -> Iterator[OtherResource]:
    try:
        found = read()
    except AdminError as error:
        if error.status not in _SWITCHED_OFF:
            yield OtherResource(kind, "", f"the source refuses to list them: {error}")
        return
    for name in found:
        detail = f"the value is {found[name]}" if isinstance(found, dict) and isinstance(found[name], str) else ""
        yield OtherResource(kind, name, detail)
