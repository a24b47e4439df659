"""The document without a past edit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metasync.documents import document_with
from magnetar.metasync.records import PARTITIONS, REMOVED
from magnetar.metasync.units import ResourceType, units_of

if TYPE_CHECKING:
    from magnetar.metasync.history import PastEdit
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Record
    from magnetar.metasync.units import Document


class UndoError(ValueError):
    """An edit that cannot be undone; the text states the reason."""


class OverriddenError(UndoError):
    """Later edits changed the same fields; they can be undone as well."""


def undone(
    resource: Resource, edit: PastEdit, record: Record, document: Document | None, *, force: bool = False
) -> Document:
    """Return the document in which the units that ``edit`` changed have their former values.

    ``force`` also replaces the values of later edits of these units. Raises UndoError if there are no former values,
    or OverriddenError if later edits changed a unit and ``force`` is not set.
    """
    if edit.is_local:
        field = f" --field {next(iter(edit.changes)).removeprefix('/')}" if len(edit.changes) == 1 else ""
        message = (
            f"the edit is for this cluster only: end it with: magnetar metadata remove-local {resource.name}{field}"
        )
        raise UndoError(message)
    if edit.is_creation:
        message = f"the edit created {resource.name}: delete it instead"
        raise UndoError(message)
    if not edit.is_complete:
        message = "the edit is so large that its former values were not kept"
        raise UndoError(message)
    former = {unit: each.before for unit, each in edit.changes.items() if each.lost_to is None}
    if edit.is_deletion:
        if document is not None:
            message = f"{resource.name} exists again: undo or repeat the edits since then"
            raise UndoError(message)
        return document_with(resource.kind, {unit: value for unit, value in former.items() if value is not REMOVED})
    if document is None:
        message = f"{resource.name} does not exist: undo its deletion first"
        raise UndoError(message)
    if not former:
        message = "the edit lost against concurrent ones, so it changed nothing"
        raise UndoError(message)
    if resource.kind is ResourceType.TOPICS and PARTITIONS in former:
        message = "the edit added partitions, and the number of partitions only grows"
        raise UndoError(message)
    later = [
        f"{unit.removeprefix('/')} by {record.edits[unit].timestamp}"
        for unit in former
        if unit in record.edits and record.edits[unit].timestamp != edit.timestamp
    ]
    if later and not force:
        message = f"later edits changed the same fields: {', '.join(later)}"
        raise OverriddenError(message)
    units = units_of(resource.kind, document) | former
    return document_with(resource.kind, {unit: value for unit, value in units.items() if value is not REMOVED})
