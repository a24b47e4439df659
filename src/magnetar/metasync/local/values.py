"""The metadata of one cluster that differ from those of the others, although its rules do not say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.metadata.awaiting import Commit
from magnetar.metasync.history import History
from magnetar.metasync.local.decisions import ended
from magnetar.metasync.local.marks import WHOLE, decoded
from magnetar.metasync.places import LOCAL
from magnetar.metasync.units import units_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.metadata.store import Change
    from magnetar.metasync.local.holdings import Holdings
    from magnetar.metasync.local.marks import Reason
    from magnetar.metasync.places import Resource


def _is_in(resource: Resource, outer: Resource) -> bool:
    parent = resource.parent
    return parent is not None and (parent == outer or _is_in(parent, outer))


@dataclass(frozen=True, slots=True)
class LocalValue:
    """A unit with a value of its own in this cluster, or a whole resource."""

    resource: Resource
    unit: str
    """WHOLE if the existence of the resource is local."""
    since_ms: int
    """Time of the change, in milliseconds since the epoch."""
    reason: Reason
    here: Any
    """The value in this cluster; None: not set. For WHOLE, whether the resource exists."""
    common: Any
    """The value in the other clusters, as far as it is known here."""


class LocalMetadata:
    """What is local. Used on the event loop's thread."""

    def __init__(self, holdings: Holdings) -> None:
        """Look into ``holdings``."""
        self._holdings = holdings
        self._history = History(holdings.store)
        self._counts = {path: len(decoded(value)) for path, value in holdings.store.below(LOCAL)}
        """Number of marks by their path. The records are not read, because the metrics need the number only."""
        holdings.store.watch(LOCAL, self._changed)

    @property
    def count(self) -> int:
        """Number of local units and resources."""
        return sum(self._counts.values())

    def values(self) -> Generator[None, None, list[LocalValue]]:
        """Return all that is local, by resource, in steps of one resource."""
        found: list[LocalValue] = []
        for resource in self._holdings.marked():
            held = self._holdings.held(resource)
            here = units_of(resource.kind, held.document or {})
            for unit, mark in sorted(held.marks.items()):
                edit = held.record.edits.get(unit)
                pair = (here.get(unit), None if edit is None else edit.value)
                if unit == WHOLE:
                    pair = (held.document is not None, held.record.exists)
                found.append(LocalValue(resource, unit, mark.since_ms, mark.reason, *pair))
            yield
        return found

    def inside(self, resource: Resource) -> list[Resource]:
        """Return what is in a tenant or a namespace and local as it is: the other clusters do not know it."""
        held = (self._holdings.held(each) for each in self._holdings.marked() if _is_in(each, resource))
        return [each.resource for each in held if each.record.is_empty]

    def remove(self, resource: Resource, field: str = "") -> Commit | None:
        """End what is local in a resource, or in one field of it; return None if there is nothing.

        ``field`` is the pointer to a unit or to several. The values are those of the other clusters again. A resource
        that the others do not know is published to them.
        """
        held = self._holdings.held(resource)
        units = [unit for unit in held.marks if not field or unit == field or unit.startswith(f"{field}/")]
        if not units:
            return None
        after, published = ended(held, units, self._holdings.created(resource), self._holdings.circumstances(resource))
        kept, _ = self._history.recorded(resource, held.record, published, held.document, self._holdings.now_ms())
        return Commit(self._holdings.store, [*self._holdings.operations(held, after, published), *kept])

    def _changed(self, change: Change) -> None:
        if change.after is None:
            self._counts.pop(change.path, None)
        else:
            self._counts[change.path] = len(decoded(change.after.value))
