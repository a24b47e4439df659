"""The newest edits of each resource, with the values that they replaced.

They are written in the transaction of the edit or the event. An edit has the same number in all clusters: its
timestamp. The replaced value is the one that was known in this cluster.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from magnetar.metadata.store import Delete, Put
from magnetar.metasync.conflicts import lost_edits
from magnetar.metasync.documents import changed_units, own_units
from magnetar.metasync.places import history_path
from magnetar.metasync.records import REMOVED
from magnetar.metasync.rules import OF_EACH_CLUSTER
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from magnetar.metadata.store import MetadataStore
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Record
    from magnetar.metasync.units import Document, ResourceType

EDITS_MAX = 50
"""Maximum number of edits of a resource that are kept. The oldest are forgotten."""

EDIT_BYTES_MAX = 65_536
"""Maximum number of bytes of an edit. The values of a larger one are not kept, so it cannot be undone."""


class Change(NamedTuple):
    """The change of one unit."""

    value: Any
    """JSON; REMOVED if the unit was removed."""
    before: Any
    """The value that was known here; REMOVED if there was none."""
    lost_to: Timestamp | None = None
    """The concurrent edit or deletion that counts instead; None if this one did not lose."""


@dataclass(frozen=True, slots=True)
class PastEdit:
    """An edit of a resource: all changes with one timestamp."""

    timestamp: Timestamp
    arrived_ms: int
    """Time of its arrival here, in milliseconds since the epoch; that of the edit if it was made here."""
    is_creation: bool = False
    is_deletion: bool = False
    changes: Mapping[str, Change] = field(default_factory=dict)
    """By unit; those of a deletion have the last values as ``before``."""
    is_complete: bool = True
    """Whether values and units were kept."""
    is_local: bool = False
    """Whether it is for this cluster only. It has no event, and its changes are those of the document here."""

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "timestamp": self.timestamp.to_json(),
            "arrived": self.arrived_ms,
            "creation": self.is_creation,
            "deletion": self.is_deletion,
            "complete": self.is_complete,
            **({"local": True} if self.is_local else {}),
            "changes": {
                unit: [each.value, each.before, *([] if each.lost_to is None else [each.lost_to.to_json()])]
                for unit, each in self.changes.items()
            },
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Parse the result of ``to_json``."""
        changes = {
            unit: Change(value, before, Timestamp.from_json(lost_to[0]) if lost_to else None)
            for unit, (value, before, *lost_to) in found["changes"].items()
        }
        return cls(
            Timestamp.from_json(found["timestamp"]),
            found["arrived"],
            found["creation"],
            found["deletion"],
            changes,
            found["complete"],
            found.get("local", False),
        )


def past_edits(
    known: Record,
    arrived: Record,
    document: Document | None,
    now_ms: int,
    stored: Callable[[Timestamp], PastEdit | None],
) -> tuple[list[PastEdit], int]:
    """Return the new or changed edits after ``arrived`` was merged into ``known``, and the number of new losers.

    ``document`` is that of this cluster before; ``stored`` returns the edit with a timestamp.
    """
    merged, lost_count = known.merge(arrived), 0
    before: dict[Timestamp, PastEdit] = {}
    changes: dict[Timestamp, dict[str, Change]] = {}

    def changes_of(timestamp: Timestamp) -> dict[str, Change]:
        if timestamp not in changes:
            before[timestamp] = stored(timestamp) or PastEdit(timestamp, now_ms)
            changes[timestamp] = dict(before[timestamp].changes)
        return changes[timestamp]

    created = None if merged.created == known.created else merged.created
    deleted = None if merged.deleted == known.deleted else merged.deleted
    if created is not None:
        changes_of(created)
    if deleted is not None:
        last = {} if document is None else own_units(known.kind, document)
        changes_of(deleted).update((unit, Change(REMOVED, value)) for unit, value in last.items())
    for unit, edit in arrived.edits.items():
        present = known.edits.get(unit)
        if merged.edits.get(unit) == edit != present:
            changes_of(edit.timestamp)[unit] = Change(edit.value, REMOVED if present is None else present.value)
    for unit, edit, winner in lost_edits(known, arrived):
        change = changes_of(edit.timestamp).get(unit)
        if change is None or change.lost_to is None:
            lost_count += 1
            changes_of(edit.timestamp)[unit] = Change(edit.value, REMOVED if change is None else change.before, winner)
    found = [
        replace(
            past,
            is_creation=past.is_creation or timestamp == created,
            is_deletion=past.is_deletion or timestamp == deleted,
            is_local=False,  # a local creation that is published later keeps its time
            changes=changes[timestamp],
        )
        for timestamp, past in before.items()
    ]
    return [past for past in found if past != before[past.timestamp]], lost_count


def local_edit(
    kind: ResourceType, before: Document | None, after: Document | None, timestamp: Timestamp, now_ms: int
) -> PastEdit | None:
    """Return the edit for this cluster only that replaced a document; None if all of it belongs to each cluster."""
    if before is None or after is None:
        old, new = (own_units(kind, each or {}) for each in (before, after))
        units = list({**old, **new})
    else:
        old, new = units_of(kind, before), units_of(kind, after)
        units = [unit for unit in changed_units(kind, before, after) if unit not in OF_EACH_CLUSTER[kind]]
        if not units:
            return None
    changes = {unit: Change(new.get(unit, REMOVED), old.get(unit, REMOVED)) for unit in units}
    return PastEdit(timestamp, now_ms, before is None, after is None, changes, is_local=True)


class History:
    """The kept edits of all resources, in a metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        """Keep edits in ``store``."""
        self._store = store

    def recorded(
        self, resource: Resource, known: Record, arrived: Record, document: Document | None, now_ms: int
    ) -> tuple[list[Put | Delete], int]:
        """Return the operations that keep the edits of ``past_edits``, and the number of new losers."""
        edits, lost_count = past_edits(known, arrived, document, now_ms, partial(self.find, resource))
        return self.kept(resource, edits), lost_count

    def kept(self, resource: Resource, edits: Sequence[PastEdit]) -> list[Put | Delete]:
        """Return the operations that keep these edits, and forget the oldest beyond EDITS_MAX."""
        root = history_path(resource)
        names = set(self._store.children(root)) if edits else set[str]()
        values = {history_path(resource, each.timestamp): _encoded(each) for each in edits}
        paths = sorted({f"{root}/{name}" for name in names} | values.keys())
        outdated = paths[: max(0, len(paths) - EDITS_MAX)]
        operations: list[Put | Delete] = [Put(path, value) for path, value in values.items() if path not in outdated]
        return [*operations, *(Delete(path) for path in outdated if path not in values)]

    def of(self, resource: Resource) -> Iterator[PastEdit]:
        """Yield the kept edits of a resource, the oldest first; each is read when it is asked for."""
        return (PastEdit.from_json(json.loads(value)) for _, value in list(self._store.below(history_path(resource))))

    def newest(self, resource: Resource) -> PastEdit | None:
        """Return the newest kept edit of a resource; None if there is none."""
        values = [value for _, value in self._store.below(history_path(resource))]
        return PastEdit.from_json(json.loads(values[-1])) if values else None

    def find(self, resource: Resource, timestamp: Timestamp) -> PastEdit | None:
        """Return the edit of a resource with a timestamp; None if it is not kept."""
        stored = self._store.get(history_path(resource, timestamp))
        return None if stored is None else PastEdit.from_json(json.loads(stored.value))

    def forgotten(self, resource: Resource) -> list[Delete]:
        """Return the operations that forget the edits of a resource."""
        root = history_path(resource)
        return [Delete(f"{root}/{name}") for name in self._store.children(root)]


def _encoded(edit: PastEdit) -> bytes:
    """Return the stored form; without values, then without units, if it is too large."""
    data = _json(edit)
    if len(data) > EDIT_BYTES_MAX:
        changes = {unit: Change(None, None, each.lost_to) for unit, each in edit.changes.items()}
        edit = replace(edit, changes=changes, is_complete=False)
        data = _json(edit)
    while len(data) > EDIT_BYTES_MAX:
        kept = sorted(edit.changes, key=len)[: len(edit.changes) // 2]
        edit = replace(edit, changes={unit: edit.changes[unit] for unit in kept})
        data = _json(edit)
    return data


def _json(edit: PastEdit) -> bytes:
    return json.dumps(edit.to_json(), separators=(",", ":")).encode()
