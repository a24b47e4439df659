"""The paths of synchronized resources and of the synchronizer's own data in the metadata store. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import unquote_plus

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName, is_named_entity, shown
from magnetar.metadata.resources import PARTITIONED_TOPICS, POLICIES, TOPIC_POLICIES, topic_path
from magnetar.metadata.routes.document import ROUTES, route_path, scope_at
from magnetar.metadata.routes.scope import parse_scope
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from magnetar.metasync.timestamps import Timestamp

ROOT = "/magnetar/metadata-sync"
RECORDS = f"{ROOT}/records"
"""Root of the records, each at the path of its resource."""
OUTBOX = f"{ROOT}/outbox"
"""Root of the events that are not published yet, by their number."""
HISTORY = f"{ROOT}/history"
"""Root of the past edits, by kind, path and timestamp."""
REFUSED = f"{ROOT}/refused"
"""Root of the newest refused events, by number."""
ARRIVALS = f"{ROOT}/arrivals"
"""Path of the times of the newest events."""
LOCAL = f"{ROOT}/local"
"""Root of the marks of what is local, each at the path of its resource."""
RULES = f"{ROOT}/rules"
"""Path of the rules that the documents follow."""
CLOCK = f"{ROOT}/clock"
"""Path of the newest timestamp that was given or observed."""

SYNCHRONIZED = (POLICIES, PARTITIONED_TOPICS, TOPIC_POLICIES, ROUTES)
"""Roots of the documents of resources."""

_ROOT_OF = {ResourceType.TOPICS: PARTITIONED_TOPICS, ResourceType.TOPIC_POLICIES: TOPIC_POLICIES}
_TOPICS = {root: kind for kind, root in _ROOT_OF.items()}


class Resource(NamedTuple):
    """A synchronized resource."""

    kind: ResourceType
    name: str
    """``tenant``, ``tenant/namespace`` or the full name of a topic, as in PIP-136; the scope of a route."""

    @classmethod
    def parse(cls, kind: ResourceType, name: str) -> Self:
        """Return the resource with this name; raises InvalidTopicNameError."""
        parsed: NamespaceName | TopicName | str = name
        if kind is ResourceType.NAMESPACES:
            parsed = NamespaceName.parse(name)
        elif kind is ResourceType.ROUTES:
            parsed = parse_scope(name)
        elif kind is not ResourceType.TENANTS:
            parsed = TopicName.parse(name)
        elif not is_named_entity(name):
            message = f"invalid tenant name {shown(name)}"
            raise InvalidTopicNameError(message)
        if str(parsed) != name:
            message = f"{shown(name)} is not a full name: expected {parsed}"
            raise InvalidTopicNameError(message)
        return cls(kind, name)

    @property
    def tenant(self) -> str:
        """The tenant that it is, or belongs to."""
        return (self.name.partition("://")[2] or self.name).partition("/")[0]

    @property
    def path(self) -> str:
        """The path of its document."""
        if self.kind in (ResourceType.TENANTS, ResourceType.NAMESPACES):
            return f"{POLICIES}/{self.name}"
        if self.kind is ResourceType.ROUTES:
            return route_path(self.name)
        return topic_path(_ROOT_OF[self.kind], TopicName.parse(self.name))

    @property
    def parent(self) -> Resource | None:
        """The resource that must exist for this one to exist; None for a tenant or a route."""
        match self.kind:
            case ResourceType.TENANTS | ResourceType.ROUTES:
                return None
            case ResourceType.NAMESPACES:
                return Resource(ResourceType.TENANTS, self.name.partition("/")[0])
            case _:
                return Resource(ResourceType.NAMESPACES, str(TopicName.parse(self.name).namespace_name))

    @property
    def record_path(self) -> str:
        """The path of its record."""
        return f"{RECORDS}{self.path}"

    @property
    def marks_path(self) -> str:
        """The path of its marks."""
        return f"{LOCAL}{self.path}"


def resources_named(name: str) -> list[Resource]:
    """Return the tenant or namespace with this name, or a topic with its policies; raises InvalidTopicNameError."""
    if "://" in name:
        return [Resource.parse(kind, name) for kind in (ResourceType.TOPICS, ResourceType.TOPIC_POLICIES)]
    return [Resource.parse(ResourceType.NAMESPACES if "/" in name else ResourceType.TENANTS, name)]


def resource_at(path: str) -> Resource | None:
    """Return the synchronized resource whose document is at ``path``; None if there is none."""
    match path.split("/")[1:]:
        case ["admin", "policies", tenant]:
            return Resource(ResourceType.TENANTS, tenant)
        case ["admin", "policies", tenant, namespace]:
            return Resource(ResourceType.NAMESPACES, f"{tenant}/{namespace}")
        case ["admin", ("partitioned-topics" | "topic-policies") as root, tenant, namespace, domain, topic]:
            name = f"{domain}://{tenant}/{namespace}/{unquote_plus(topic)}"
            return Resource(_TOPICS[f"/admin/{root}"], name)
        case ["magnetar", "routes", _, *_]:
            return Resource(ResourceType.ROUTES, scope_at(path))
    return None


def event_path(number: int) -> str:
    """Return the path of an event in the outbox; paths sort like numbers."""
    return f"{OUTBOX}/{number:020d}"


def history_path(resource: Resource, timestamp: Timestamp | None = None) -> str:
    """Return the path of the past edits of a resource, or of one of them; paths sort like timestamps."""
    root = f"{HISTORY}/{resource.kind.value}{resource.path}"
    if timestamp is None:
        return root
    return f"{root}/{timestamp.time_ms:016d}.{timestamp.counter:010d}.{timestamp.cluster}"


def refused_path(number: int) -> str:
    """Return the path of a refused event; paths sort like numbers."""
    return f"{REFUSED}/{number:020d}"
