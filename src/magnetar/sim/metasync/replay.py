"""The oracle: the state of a resource after all changes, played one after the other. Pure.

It shares no code with ``magnetar.metasync``, and merges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo, TopicPolicies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Units = dict[str, Any]
"""Values by JSON pointer."""

PARTITIONS = "/partitions"
ROUTE = "/route"


class Kind(Enum):
    """The kind of a resource."""

    TENANT = "tenant"
    NAMESPACE = "namespace"
    TOPIC = "partitioned topic"
    TOPIC_POLICIES = "policies of a topic"
    ROUTE = "route"

    @property
    def is_deleted_everywhere(self) -> bool:
        """Return whether a deletion in one cluster concerns all of them."""
        return self in (Kind.TENANT, Kind.NAMESPACE)


_DIVIDED = {
    Kind.TENANT: {},
    Kind.NAMESPACE: {"auth_policies": 2, "backlog_quota_map": 1, "properties": 1, "topicDispatchRate": 1},
    Kind.TOPIC: {"properties": 1},
    Kind.TOPIC_POLICIES: {"backLogQuotaMap": 1},
    Kind.ROUTE: {},
}
"""Depths of the fields that are merged by their keys. Permissions of topics are one level deeper."""

_OWN = {
    Kind.TENANT: ("allowedClusters",),
    Kind.NAMESPACE: ("replication_clusters", "allowed_clusters", "replicated_subscription_active_cluster"),
    Kind.TOPIC: ("deleted",),
    Kind.TOPIC_POLICIES: ("replicationClusters", "replicatedSubscriptionActiveCluster"),
    Kind.ROUTE: (),
}
"""Fields that belong to each cluster."""


def kind_of(path: str) -> Kind | None:
    """Return the kind of the resource whose document is at ``path``; None if it is none."""
    parts = path.split("/")[1:]
    match parts:
        case ["admin", "policies", _]:
            return Kind.TENANT
        case ["admin", "policies", _, _]:
            return Kind.NAMESPACE
        case ["admin", "partitioned-topics", *_]:
            return Kind.TOPIC
        case ["admin", "topic-policies", *_]:
            return Kind.TOPIC_POLICIES
        case ["magnetar", "routes", *_]:
            return Kind.ROUTE
    return None


def units(kind: Kind, document: dict[str, Any]) -> Units:
    """Return the values of a document that are merged separately."""
    found: Units = {}
    for field, value in document.items():
        if field not in _OWN[kind]:
            _flatten(found, f"/{_escaped(field)}", value, _DIVIDED[kind].get(field, 0))
    return found


def is_shared(kind: Kind, unit: str) -> bool:
    """Return whether a value is merged, and does not belong to each cluster."""
    return unit[1:].partition("/")[0] not in _OWN[kind]


def own(kind: Kind, document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a document that belong to its cluster, except the mark of a deletion."""
    return {field: document[field] for field in _OWN[kind] if field in document and field != "deleted"}


def _flatten(found: Units, pointer: str, value: Any, depth: int) -> None:
    if not depth or not isinstance(value, dict):
        found[pointer] = value
        return
    for key, part in value.items():
        deeper = 1 if key == "destination_auth" and pointer == "/auth_policies" else 0
        _flatten(found, f"{pointer}/{_escaped(key)}", part, depth - 1 + deeper)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


DEFAULTS = {
    Kind.TENANT: units(Kind.TENANT, TenantInfo().to_json()),
    Kind.NAMESPACE: units(Kind.NAMESPACE, Policies().to_json()),
    Kind.TOPIC: {},
    Kind.TOPIC_POLICIES: units(Kind.TOPIC_POLICIES, TopicPolicies().to_json()),
    Kind.ROUTE: {},
}
"""Values of a document that nobody has set."""

assert units(Kind.TOPIC, PartitionedTopicMetadata(partitions=1).to_json()) == {PARTITIONS: 1}


class Stamp(NamedTuple):
    """The stored timestamp of a change."""

    time_ms: int
    counter: int
    cluster: str

    @property
    def order(self) -> tuple[int, int, tuple[int, ...]]:
        """Return the place among all changes: the greatest one counts. At the same time, the smaller name counts."""
        return self.time_ms, self.counter, tuple(-ord(letter) for letter in self.cluster)


_NONE = Stamp(0, 0, "")


class State(Enum):
    """What is known about a change."""

    PENDING = "not reported yet"
    DURABLE = "durable"
    FAILED = "reported as failed; a write in doubt may be found by the next process"
    LOST = "lost with a process before it was durable"
    UNCERTAIN = "lost with a disk, unless another cluster has it"


@dataclass(slots=True)
class Change:
    """A change of one document by the administration of one cluster."""

    site: str
    path: str
    kind: Kind
    units: Units
    """The new values of the changed units; None: removed."""
    created: bool = False
    deleted: bool = False
    stamp: Stamp = _NONE
    """Set when the change is submitted."""
    state: State = State.PENDING
    published: bool = False
    """Whether its event was published."""

    def __str__(self) -> str:
        """Return the change for a message."""
        what = "deleted" if self.deleted else f"{'created' if self.created else 'changed'} {self.units}"
        return f"{self.path} {what} in {self.site} at {tuple(self.stamp)}"


class Expected(NamedTuple):
    """The state of a resource that all clusters must have."""

    exists: bool
    units: Units


def replay(kind: Kind, changes: Sequence[Change]) -> Expected:
    """Return the state after ``changes`` in their order.

    A deletion removes the values before it. A change of a value that was made concurrently with the deletion does not
    restore the resource.
    """
    exists, found, partitions = False, Units(), 0
    for change in sorted(changes, key=lambda each: each.stamp.order):
        if change.deleted:
            exists, found = False, {}
            continue
        exists = exists or change.created
        found |= change.units
        partitions = max(partitions, change.units.get(PARTITIONS) or 0)
    if kind is Kind.ROUTE and found:
        found[ROUTE] = max((change.units[ROUTE] for change in changes if ROUTE in change.units), key=route_order)
    if kind is Kind.TOPIC and partitions:
        found[PARTITIONS] = partitions
    return Expected(exists, DEFAULTS[kind] | {unit: value for unit, value in found.items() if value is not None})


def route_order(route: dict[str, Any]) -> tuple[int, str]:
    """Return the place of a route among those of its scope: the one with the greatest epoch counts."""
    return route["epoch"], route.get("cluster", "")


def stamps(record: dict[str, Any]) -> Iterator[Stamp]:
    """Yield the timestamps of a stored record."""
    for each in (record.get("created"), record.get("deleted")):
        if each is not None:
            yield Stamp(*each[:3])
    for _, time_ms, counter, cluster, *_ in record["edits"].values():
        yield Stamp(time_ms, counter, cluster)
