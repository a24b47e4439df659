"""The parts of documents that are merged separately: fields, and keys of some fields. Pure.

A unit is named by a JSON pointer (RFC 6901), such as ``/message_ttl_in_seconds`` or
``/backlog_quota_map/destination_storage``. Fields that this version does not know are units as well, so they survive.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Document = dict[str, Any]
"""A document as JSON."""


class ResourceType(Enum):
    """``ResourceType`` of PIP-136."""

    TENANTS = "Tenants"
    NAMESPACES = "Namespaces"
    TOPICS = "Topics"
    """Partitioned topics."""
    TOPIC_POLICIES = "TopicPolicies"
    ROUTES = "Routes"
    """Magnetar's own; not part of PIP-136."""


LOCAL_DELETIONS = (ResourceType.TOPICS, ResourceType.TOPIC_POLICIES, ResourceType.ROUTES)
"""Kinds whose deletion concerns one cluster only: the topic goes on in the others.

A deleted route is a document without a cluster: its epoch must not be forgotten.
"""

_DEPTHS: dict[ResourceType, dict[str, int]] = {
    ResourceType.TENANTS: {},
    ResourceType.NAMESPACES: {
        "auth_policies/namespace_auth": 1,
        "auth_policies/destination_auth": 2,
        "auth_policies/subscription_auth_roles": 1,
        "backlog_quota_map": 1,
        "clusterDispatchRate": 1,
        "topicDispatchRate": 1,
        "subscriptionDispatchRate": 1,
        "replicatorDispatchRate": 1,
        "clusterSubscribeRate": 1,
        "publishMaxMessageRate": 1,
        "latency_stats_sample_rate": 1,
        "properties": 1,
    },
    ResourceType.TOPICS: {"properties": 1},
    ResourceType.TOPIC_POLICIES: {"backLogQuotaMap": 1, "subscriptionPolicies": 1},
    ResourceType.ROUTES: {},
}
"""Fields that are divided: the number of levels of keys below them. All other fields are one unit each."""

SETS: dict[ResourceType, frozenset[str]] = {
    ResourceType.TENANTS: frozenset({"allowedClusters"}),
    ResourceType.NAMESPACES: frozenset[str](),
    ResourceType.TOPICS: frozenset[str](),
    ResourceType.TOPIC_POLICIES: frozenset[str](),
    ResourceType.ROUTES: frozenset[str](),
}
"""Lists of names without an order and without duplicates. Each name is a unit, whose value is true."""


def is_divided_at(pointer: str) -> bool:
    """Return whether a document has units at or below a pointer with more than one part."""
    parts = pointer.split("/")[1:]
    if len(parts) == 2 and any(parts[0] in sets for sets in SETS.values()):  # noqa: PLR2004 - a field and a name
        return True
    for divided in _DEPTHS.values():
        for path, depth in divided.items():
            inside = path.split("/")
            common = min(len(inside), len(parts))
            if inside[:common] == parts[:common] and len(parts) <= len(inside) + depth:
                return True
    return False


def units_of(kind: ResourceType, document: Document) -> dict[str, Any]:
    """Return the value of each unit of a document."""
    return dict(_units(kind, document))


def document_of(kind: ResourceType, units: Mapping[str, Any]) -> Document:
    """Return the document with these units; raises ValueError if one is inside the value of another."""
    document: Document = {}
    made = {id(document)}
    for unit, value in units.items():
        *parents, last = keys_of(unit)
        at = document
        for parent in parents:
            if parent not in at:
                at[parent] = {}
                made.add(id(at[parent]))
            at = at[parent]
            if id(at) not in made:
                message = f"{unit:.100} is inside the value of another unit"
                raise ValueError(message)
        if last in at:
            message = f"another unit is inside the value of {unit:.100}"
            raise ValueError(message)
        at[last] = value
    sets = {field: sorted(document[field]) for field in SETS[kind] if isinstance(document.get(field), dict)}
    return document | sets


def keys_of(unit: str) -> list[str]:
    """Return the field of a unit, and the keys below it."""
    keys = unit.split("/")[1:]
    return list(map(_unescaped, keys)) if "~" in unit else keys


def unit_of(keys: Sequence[str]) -> str:
    """Return the unit with this field and these keys below it."""
    return "".join(f"/{escaped(key)}" for key in keys)


def _units(kind: ResourceType, document: Document) -> Iterator[tuple[str, Any]]:
    divided = _DEPTHS[kind]
    for field, value in document.items():
        if field in SETS[kind] and isinstance(value, list):
            yield from ((f"/{escaped(field)}/{escaped(str(name))}", True) for name in value)
            continue
        inside = [each for each in divided if each.partition("/")[0] == field]
        if not inside or not isinstance(value, dict):
            yield f"/{escaped(field)}", value
        elif inside == [field]:
            yield from _keys(f"/{escaped(field)}", value, divided[field])
        else:
            for name, part in value.items():
                depth = divided.get(f"{field}/{name}", 0)
                yield from _keys(f"/{escaped(field)}/{escaped(name)}", part, depth)


def _keys(unit: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON has no narrower type
    """Yield the units below a field. An empty object has no units: it means the same as an absent one."""
    if not depth or not isinstance(value, dict):
        yield unit, value
        return
    for key, part in value.items():
        yield from _keys(f"{unit}/{escaped(key)}", part, depth - 1)


def escaped(name: str) -> str:
    """Return a name as a part of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")
