"""Compares the metadata of clusters field by field. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from magnetar.metasync.documents import normal, own_units
from magnetar.metasync.rules import OF_EACH_CLUSTER
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from magnetar.metasync.places import Resource
    from magnetar.metasync.units import Document

    Metadata = Mapping[Resource, Document]
    """The documents of one cluster."""
    Exemption = Callable[[Resource, str], str | None]

EXISTENCE = ""
"""The unit of a difference in whether a resource exists."""

BELONGS_TO_EACH_CLUSTER = "belongs to each cluster"
"""The reason why a field that the synchronizer copies only once may differ."""

_OF_THE_READER: frozenset[str] = frozenset({"/lastUpdatedBy", "/lastUpdatedTime"})
"""Units that the broker adds to its answers: they tell who made the newest edit."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field, or a resource, that is not the same in all clusters."""

    resource: Resource
    unit: str
    """The field as a JSON pointer, see ``units``; EXISTENCE if some clusters lack the resource."""
    values: Mapping[str, Any]
    """By cluster. None: not set, or the default. For EXISTENCE, whether the resource exists."""
    allowed: str | None
    """The reason why it may differ; None if it must not."""


def belongs_to_each_cluster(resource: Resource, unit: str) -> str | None:
    """Return BELONGS_TO_EACH_CLUSTER for the fields that the synchronizer leaves to each cluster, else None."""
    return BELONGS_TO_EACH_CLUSTER if unit in OF_EACH_CLUSTER[resource.kind] else None


def differences(
    clusters: Mapping[str, Metadata],
    allowed: Callable[[Resource, str], str | None] = belongs_to_each_cluster,
) -> Iterator[Difference]:
    """Yield the differences between ``clusters``, by resource; none if all agree.

    ``allowed`` returns the reason why a unit of a resource may differ. Defaults and unset fields are equal. The order
    of a list of texts has no meaning: clusters, roles, actions. Topic policies that a cluster lacks have no fields.
    """
    for resource in sorted({each for found in clusters.values() for each in found}, key=_place):
        documents = {name: found.get(resource) for name, found in clusters.items()}
        present = {name: _units(resource, document) for name, document in documents.items() if document is not None}
        if resource.kind is ResourceType.TOPIC_POLICIES:
            present |= {name: {} for name in documents if name not in present}
        elif len(present) < len(documents):
            existing = {name: name in present for name in documents}
            yield Difference(resource, EXISTENCE, existing, allowed(resource, EXISTENCE))
        for unit in sorted({unit for units in present.values() for unit in units} - _OF_THE_READER):
            values = {name: units.get(unit) for name, units in present.items()}
            first, *others = map(_comparable, values.values())
            if any(other != first for other in others):
                yield Difference(resource, unit, values, allowed(resource, unit))


def permitted(found: Difference, exemptions: Mapping[str, Exemption]) -> Difference:
    """Return a difference as an allowed one if the clusters without an exemption agree.

    ``exemptions`` has a function for each cluster. It returns the reason why a unit of a resource differs there.
    """
    reasons = {
        name: reason
        for name, exemption in exemptions.items()
        if name in found.values and (reason := exemption(found.resource, found.unit)) is not None
    }
    rest = [_comparable(value) for name, value in found.values.items() if name not in reasons]
    if found.allowed is not None or not reasons or any(value != rest[0] for value in rest):
        return found
    return replace(found, allowed=", ".join(f"{reason} in {name}" for name, reason in reasons.items()))


def renamed(metadata: Metadata, names: Mapping[str, str]) -> dict[Resource, Document]:
    """Return the documents with other names of clusters, where ``names`` has one.

    So a cluster can be compared with a copy of it that has another name.
    """
    return {resource: _renamed(resource.kind, document, names) for resource, document in metadata.items()}


LISTS_OF_CLUSTERS = {
    ResourceType.TENANTS: ("allowedClusters",),
    ResourceType.NAMESPACES: ("replication_clusters", "allowed_clusters"),
    ResourceType.TOPICS: (),
    ResourceType.TOPIC_POLICIES: ("replicationClusters",),
    ResourceType.ROUTES: (),
}
"""Fields with names of clusters."""

_KEYED_BY_CLUSTER = (
    "clusterDispatchRate",
    "topicDispatchRate",
    "subscriptionDispatchRate",
    "replicatorDispatchRate",
    "clusterSubscribeRate",
    "publishMaxMessageRate",
    "latency_stats_sample_rate",
)
"""Fields of a namespace with a value for each cluster."""


def _renamed(kind: ResourceType, document: Document, names: Mapping[str, str]) -> Document:
    lists = {
        field: [names.get(each, each) for each in document[field]]
        for field in LISTS_OF_CLUSTERS[kind]
        if isinstance(document.get(field), list)
    }
    keyed = {
        field: {names.get(each, each): value for each, value in document[field].items()}
        for field in _KEYED_BY_CLUSTER
        if kind is ResourceType.NAMESPACES and isinstance(document.get(field), dict)
    }
    return document | lists | keyed


def _units(resource: Resource, document: Document) -> dict[str, Any]:
    """Return the units without the defaults, as they are if this version cannot read the document."""
    try:
        return own_units(resource.kind, normal(resource.kind, document))
    except ValueError:
        return own_units(resource.kind, {name: value for name, value in document.items() if value is not None})


def _comparable(value: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(value)
    return value


_ORDER = {kind: index for index, kind in enumerate(ResourceType)}


def _place(resource: Resource) -> tuple[int, str]:
    return _ORDER[resource.kind], resource.name
