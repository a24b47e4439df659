"""Records of resources, which merge by the newer edit of each unit. Pure.

A record has the newest edit of each unit, also of one that was removed, and the times of the resource's creation and
deletion. Of two edits of a unit the one with the greater timestamp counts. Merging is commutative, associative and
idempotent: records may be lost, repeated and reordered, or contain some of the units only, and all clusters agree.
Partitions only grow, which is not associative beside a deletion. So events that delete a topic are refused.

A deletion removes all edits before it. A resource that is created again has none of them. An edit that was made
concurrently with a deletion does not restore the resource.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from magnetar.metadata.routes.table import Route
from magnetar.metasync.timestamps import FUTURE_MAX_S, Timestamp
from magnetar.metasync.units import SETS, ResourceType, document_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.metasync.units import Document

REMOVED = None
"""The value of a unit that was removed. Null in a document means absent as well, as in Pulsar."""

PARTITIONS = "/partitions"
"""The unit of a partitioned topic that only grows."""

ROUTE = "/route"
"""The unit of a route. The one with the later epoch counts, as wherever routes meet."""

UNITS_MAX = 2_500
"""Maximum number of units of a record, including removed ones. Each event of the resource reads and writes all of them.

An edit that adds more is refused where it is made, and an event with more is refused where it arrives.
"""

REMOVED_MAX = 1_000
"""Maximum number of removed units that a record remembers, for example removed properties.

If older ones are forgotten, an edit made before the removal could restore the unit.
"""


REPLACED_MAX = 100
"""Maximum number of clusters of which a deletion tells the newest edit that it replaced."""


class Edit(NamedTuple):
    """The newest edit of a unit."""

    timestamp: Timestamp
    value: Any
    """JSON; REMOVED if the unit was removed."""
    replaced: Timestamp | None = None
    """Timestamp of the edit that was known where this one was made; None: none was known."""

    def wins_over(self, other: Edit) -> bool:
        """Return whether this edit counts. Equal timestamps of different edits come from a faulty cluster only."""
        if self.timestamp != other.timestamp:
            return other.timestamp < self.timestamp
        if isinstance(self.value, str) and self == other:
            return False  # most repeated edits; the comparison of other values would not tell 1 from true
        return self._text > other._text

    @property
    def _text(self) -> str:
        return _canonical([self.value, None if self.replaced is None else self.replaced.to_json()])

    def to_json(self) -> list[Any]:
        """Return the value, the parts of the timestamp, and the replaced timestamp if there is one."""
        replaced = [] if self.replaced is None else [self.replaced.to_json()]
        return [self.value, *self.timestamp.to_json(), *replaced]


@dataclass(slots=True)
class Record:
    """The edits of one resource, all of them or a part."""

    kind: ResourceType
    created: Timestamp | None = None
    """The newest creation."""
    deleted: Timestamp | None = None
    """The newest deletion."""
    edits: dict[str, Edit] = field(default_factory=dict)
    """By unit."""
    replaced: tuple[Timestamp, ...] | None = None
    """The newest edit from each cluster that was known where ``deleted`` was made; None: the deletion does not tell."""

    @property
    def exists(self) -> bool:
        """Whether the resource exists."""
        return self.created is not None and (self.deleted is None or self.deleted < self.created)

    def timestamps(self) -> Iterator[Timestamp]:
        """Yield all timestamps."""
        yield from (each for each in (self.created, self.deleted) if each is not None)
        yield from (edit.timestamp for edit in self.edits.values())

    def newest_of_each(self) -> tuple[Timestamp, ...]:
        """Return the newest edit of the resource from each cluster, as far as the record tells."""
        known = [*self.timestamps(), *(edit.replaced for edit in self.edits.values() if edit.replaced is not None)]
        newest = {each.cluster: each for each in sorted(known)}
        return tuple(sorted(newest.values())[-REPLACED_MAX:])

    def document(self) -> Document | None:
        """Return the resource's document; None if it does not exist."""
        if not self.exists:
            return None
        return document_of(
            self.kind, {unit: edit.value for unit, edit in self.edits.items() if edit.value is not REMOVED}
        )

    def merge(self, other: Record) -> Record:
        """Return the record with the edits of both."""
        assert self.kind is other.kind, (self.kind, other.kind)
        created, deleted = _newer(self.created, other.created), _newer(self.deleted, other.deleted)
        edits = dict(self.edits)
        for unit, edit in other.edits.items():
            known = edits.get(unit)
            if known is None:
                edits[unit] = edit
            elif self.kind is ResourceType.TOPICS and unit == PARTITIONS:
                edits[unit] = _larger(known, edit)
            elif self.kind is ResourceType.ROUTES and unit == ROUTE:
                edits[unit] = _later_route(known, edit)
            elif edit.wins_over(known):
                edits[unit] = edit
        if deleted is not None:
            edits = {unit: edit for unit, edit in edits.items() if deleted < edit.timestamp}
        # Equal deletions tell the same, except those of a faulty cluster.
        told = (each.replaced for each in (self, other) if each.deleted == deleted)
        replaced = max(told, key=lambda each: (each is not None, each or ()))
        return Record(self.kind, created, deleted, edits, replaced)

    def news(self, known: Record) -> Record:
        """Return the part of this record that a holder of ``known`` lacks."""
        merged = known.merge(self)
        edits = {unit: edit for unit, edit in merged.edits.items() if known.edits.get(unit) != edit}
        created = merged.created if merged.created != known.created else None
        if (merged.deleted, merged.replaced) == (known.deleted, known.replaced):
            return Record(self.kind, created, None, edits)
        return Record(self.kind, created, merged.deleted, edits, merged.replaced)

    @property
    def is_empty(self) -> bool:
        """Whether the record has no edit."""
        return self.created is None and self.deleted is None and not self.edits

    def check_epoch(self) -> None:
        """Raise ValueError if the epoch of a route is ahead of the time of its edit: no later one could exceed it."""
        edit = self.edits.get(ROUTE) if self.kind is ResourceType.ROUTES else None
        route = None if edit is None else _route_of(edit)
        if edit is not None and route is not None and route.epoch > edit.timestamp.time_ms + FUTURE_MAX_S * 1000:
            message = (
                f"epoch {route.epoch} is more than {FUTURE_MAX_S:.0f} s after its edit at {edit.timestamp.time_ms}"
            )
            raise ValueError(message)

    def forget(self) -> None:
        """Forget the oldest removed units beyond REMOVED_MAX."""
        removed = [unit for unit, edit in self.edits.items() if edit.value is REMOVED]
        removed.sort(key=lambda unit: self.edits[unit].timestamp)
        for unit in removed[: max(0, len(removed) - REMOVED_MAX)]:
            del self.edits[unit]

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        edits = {unit: edit.to_json() for unit, edit in sorted(self.edits.items())}
        found: dict[str, Any] = {"edits": edits}
        if self.created is not None:
            found["created"] = self.created.to_json()
        if self.deleted is not None:
            found["deleted"] = self.deleted.to_json()
        if self.replaced is not None:
            found["replaced"] = [each.to_json() for each in self.replaced]
        return found

    @classmethod
    def from_json(cls, kind: ResourceType, value: Mapping[str, Any]) -> Self:
        """Parse the result of ``to_json``; raises ValueError. Edits of a set as a whole are ignored, see SETS."""
        match value:
            case {"edits": dict(edits)}:
                read = {unit: _edit_of(unit, edit) for unit, edit in edits.items()}
                read = {unit: edit for unit, edit in read.items() if unit.removeprefix("/") not in SETS[kind]}
                created, deleted, replaced = (value.get(each) for each in ("created", "deleted", "replaced"))
                return cls(
                    kind,
                    None if created is None else Timestamp.from_json(created),
                    None if deleted is None else Timestamp.from_json(deleted),
                    read,
                    None if deleted is None or replaced is None else _replaced_of(replaced),
                )
        message = "a record of edits must have the member edits"
        raise ValueError(message)


def _edit_of(unit: object, value: object) -> Edit:
    if not isinstance(unit, str) or not unit.startswith("/"):
        message = f"{unit!r:.100} is not a JSON pointer"
        raise ValueError(message)
    match value:
        case [edited, *timestamp, [_, _, _] as replaced]:
            return Edit(Timestamp.from_json(timestamp), edited, Timestamp.from_json(replaced))
        case [edited, *timestamp]:
            return Edit(Timestamp.from_json(timestamp), edited)
    message = f"the edit of {unit:.100} must have a value and a timestamp"
    raise ValueError(message)


def _replaced_of(value: object) -> tuple[Timestamp, ...]:
    if not isinstance(value, list) or len(value) > REPLACED_MAX:
        message = f"{value!r:.100} is not the list of the edits that a deletion replaced, at most {REPLACED_MAX}"
        raise ValueError(message)
    return tuple(map(Timestamp.from_json, value))


def _newer(one: Timestamp | None, other: Timestamp | None) -> Timestamp | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _larger(one: Edit, other: Edit) -> Edit:
    """Return the edit with more partitions, or the newer one."""
    counts = [(each.value if isinstance(each.value, int) else 0, each) for each in (one, other)]
    (first, _), (second, _) = counts
    if first != second:
        return one if first > second else other
    return other if other.wins_over(one) else one


def _later_route(one: Edit, other: Edit) -> Edit:
    """Return the edit with the later route, or the newer one."""
    first, second = _route_of(one), _route_of(other)
    if second is not None and second.is_later_than(first):
        return other
    if first is not None and first.is_later_than(second):
        return one
    return other if other.wins_over(one) else one


def _route_of(edit: Edit) -> Route | None:
    try:
        return Route.from_json(edit.value)
    except ValueError:
        return None


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
