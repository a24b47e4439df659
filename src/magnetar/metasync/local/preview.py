"""What an event would change in one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.metasync.documents import own_units
from magnetar.metasync.local.decisions import merged
from magnetar.metasync.timestamps import check_time

if TYPE_CHECKING:
    from magnetar.metasync.events import MetadataChangeEvent
    from magnetar.metasync.local.holdings import Holdings

EXISTENCE = ""
"""The unit of a change of whether the resource exists."""


class PlannedChange(NamedTuple):
    """A change of the document of a resource."""

    unit: str
    before: Any
    """The value here; None if it is not set, or the default. For EXISTENCE, whether the resource exists."""
    after: Any


def preview(holdings: Holdings, event: MetadataChangeEvent) -> list[PlannedChange]:
    """Return the changes that the edits of an event would make here, without making them.

    Raises RequestError for edits that are too far in the future, ValueError for a document that is not valid.
    """
    for timestamp in event.record.timestamps():
        check_time(timestamp, holdings.now_ms())
    resource, held = event.resource, holdings.held(event.resource)
    if not holdings.rules.covers(resource):
        return []
    after = merged(held, event.record, holdings.circumstances(resource)).document
    changes = []
    if (held.document is None) != (after is None):
        changes.append(PlannedChange(EXISTENCE, held.document is not None, after is not None))
    old, new = own_units(resource.kind, held.document or {}), own_units(resource.kind, after or {})
    if after is not None:
        units = [unit for unit in {**old, **new} if old.get(unit) != new.get(unit)]
        changes += [PlannedChange(unit, old.get(unit), new.get(unit)) for unit in sorted(units)]
    return changes
