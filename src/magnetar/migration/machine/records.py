"""The records of the journal: what happened in a migration. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from magnetar.migration.machine.tables import PlaceEvent, StageEvent, TopicEvent

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Begun:
    """The first record: what is moved."""

    scope: str
    source: str
    """Name of the cluster that the tenant leaves."""
    target: str


@dataclass(frozen=True, slots=True)
class StageMoved:
    """An event of the whole migration."""

    event: StageEvent
    differences: int | None = None
    """For a verification: the number of findings."""


@dataclass(frozen=True, slots=True)
class Found:
    """The metadata were copied, and these topics and places were not known before."""

    topics: tuple[str, ...] = ()
    """Topics without partitions, and partitions."""
    places: tuple[str, ...] = ()
    """Namespaces, and topics with their own clusters."""


@dataclass(frozen=True, slots=True)
class TopicsMoved:
    """An event of some topics."""

    event: TopicEvent
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionsRemembered:
    """The subscriptions of topics, and whether each was replicated before the migration."""

    replicated: Mapping[str, Mapping[str, bool]]


@dataclass(frozen=True, slots=True)
class PlaceMoved:
    """An event of a place."""

    event: PlaceEvent
    place: str
    clusters: tuple[str, ...] | None = None
    """For REMEMBERED: the clusters of the place before the migration; empty: those of its namespace."""


@dataclass(frozen=True, slots=True)
class TopicsFenced:
    """Topics are fenced, and their subscriptions cannot come or go: FENCED."""

    replicated: Mapping[str, Mapping[str, bool]]
    """Whether each subscription was replicated then, by topic."""


@dataclass(frozen=True, slots=True)
class TopicsClosed:
    """Nothing changes in topics any more: CLOSED."""

    unacknowledged: Mapping[str, int | None]
    """Messages that consumers held then and had not acknowledged, by topic: they are delivered again. None: unknown."""


@dataclass(frozen=True, slots=True)
class TopicsReleased:
    """Topics stay where they are, for a reason: RELEASE or EXPIRED."""

    event: TopicEvent
    topics: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Routed:
    """One route sends all clients to a cluster, and no topic has a route of its own."""

    cluster: str


Record = (
    Begun
    | StageMoved
    | Found
    | TopicsMoved
    | SubscriptionsRemembered
    | PlaceMoved
    | TopicsFenced
    | TopicsClosed
    | TopicsReleased
    | Routed
)

_KINDS: dict[str, type[Record]] = {
    "begun": Begun,
    "stage": StageMoved,
    "found": Found,
    "topics": TopicsMoved,
    "subscriptions": SubscriptionsRemembered,
    "place": PlaceMoved,
    "fenced": TopicsFenced,
    "closed": TopicsClosed,
    "released": TopicsReleased,
    "routed": Routed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_EVENTS = {StageMoved: StageEvent, TopicsMoved: TopicEvent, PlaceMoved: PlaceEvent, TopicsReleased: TopicEvent}


def to_json(record: Record) -> dict[str, Any]:
    """Return the form of the journal."""
    found = asdict(record)
    if "event" in found:
        found["event"] = found["event"].value
    return {"kind": _NAMES[type(record)], **found}


def from_json(found: Mapping[str, Any]) -> Record:
    """Return the record; raises ValueError for a form that this version does not know."""
    kind = _KINDS.get(found.get("kind", ""))
    if kind is None or {*found} != {"kind", *(each.name for each in fields(kind))}:
        message = f"unknown record {found.get('kind')!r}"
        raise ValueError(message)
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in found.items() if name != "kind"
    }
    if kind in _EVENTS:
        values["event"] = _EVENTS[kind](values["event"])
    return kind(**values)
