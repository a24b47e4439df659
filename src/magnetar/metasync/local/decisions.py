"""What a change does to a resource in one cluster: its record, its document and its marks. Pure.

The record has the common state. The document of this cluster has the same values except where a rule or a mark says
otherwise: an edit of another cluster that this one does not apply goes to the record only, and a local edit to the
document only. When the rule or the mark ends, the document takes the common values. So a rule that is changed, or a
local edit, never changes another cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from magnetar.metasync.documents import changed_units, document_with, normal, own_units
from magnetar.metasync.local.marks import WHOLE, Mark, Marks, Reason
from magnetar.metasync.records import PARTITIONS, REMOVED, Edit, Record
from magnetar.metasync.rules import OF_EACH_CLUSTER, without_own
from magnetar.metasync.units import LOCAL_DELETIONS, ResourceType, keys_of, units_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.metasync.places import Resource
    from magnetar.metasync.rules import Rules
    from magnetar.metasync.timestamps import Timestamp
    from magnetar.metasync.units import Document


@dataclass(frozen=True, slots=True)
class Holding:
    """A resource in one cluster."""

    resource: Resource
    record: Record
    """The common state, as far as it is known here."""
    document: Document | None
    """What the cluster acts on; None if the resource does not exist here."""
    marks: Marks = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether an operator made the existence of the resource local."""
        mark = self.marks.get(WHOLE)
        return mark is not None and mark.reason is Reason.EDIT


Check = Callable[[ResourceType, "Document", Collection[str]], None]
"""Raises ValueError if an admin call would refuse the values of these fields of a document.

It must decide about each field by itself, so that all clusters refuse the same edits.
"""


def accept_all(_: ResourceType, __: Document, ___: Collection[str]) -> None:
    """See Check."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides beside the holding."""

    rules: Rules
    now_ms: int
    next_timestamp: Callable[[], Timestamp]
    """Gives the timestamp of an edit that is made now."""
    is_allowed: bool = True
    """Whether the resource's tenant allows this cluster."""
    has_topics: Callable[[], bool] = bool
    """Returns whether the deletion of the resource would strand topics here."""
    check: Check = accept_all


def edited(
    held: Holding,
    after: Document | None,
    given: Circumstances,
    named: Collection[str] = (),
    *,
    is_local: bool = False,
) -> tuple[Holding, Record]:
    """Change the document, as an admin call of this cluster does; None: delete it.

    Returns the holding after it, and the edits to publish. ``is_local``: the edit is for this cluster only. The call
    is about the ``named`` units, even if they keep their values: local ones become common, or common ones local.
    """
    before, resource, marks = held.document, held.resource, held.marks
    nothing = Record(resource.kind)
    kept = [unit for unit in named if (unit in marks) is not is_local and not held.is_local]
    if before == after and (before is None or not kept):
        return held, nothing
    if after is None and (resource.kind in LOCAL_DELETIONS or not held.record.exists):
        marks = {}
    elif is_local and (after is None or (before is None and resource.kind is not ResourceType.TOPIC_POLICIES)):
        marks = {WHOLE: Mark(given.now_ms, Reason.EDIT)}
    elif is_local and after is not None:
        own = OF_EACH_CLUSTER[resource.kind]
        changed = [unit for unit in (*changed_units(resource.kind, before or {}, after), *kept) if unit not in own]
        marks = marks | dict.fromkeys(changed, Mark(given.now_ms, Reason.EDIT))
    changed_here = replace(held, document=after, marks=marks)
    if is_local and before is None and WHOLE not in marks:
        return applied(changed_here, given), nothing
    if is_local or held.is_local or not given.rules.includes(resource):
        return changed_here, nothing
    if after is not None:
        return _shared(held, after, given, kept)
    if resource.kind in LOCAL_DELETIONS:
        return changed_here, nothing
    replaced = held.record.newest_of_each()
    published = Record(resource.kind, deleted=given.next_timestamp(), replaced=replaced)
    return replace(changed_here, record=held.record.merge(published), marks={}), published


def merged(held: Holding, news: Record, given: Circumstances) -> Holding:
    """Merge edits of another cluster; raises ValueError if an admin call would refuse the document of the record.

    A resource whose creation has not arrived must be valid as well: otherwise the creation would be refused.
    """
    if held.document is not None:
        news = without_own(news)
    record = held.record.merge(news)
    units = {unit: edit.value for unit, edit in record.edits.items() if edit.value is not REMOVED}
    if not record.exists and held.resource.kind is ResourceType.TOPICS:
        units.setdefault(PARTITIONS, 1)
    known = held.record.edits
    fields = {keys_of(unit)[0] for unit in news.edits if record.edits.get(unit) != known.get(unit)}
    given.check(held.resource.kind, document_with(held.resource.kind, units), fields)
    return applied(replace(held, record=record), given)


def applied(held: Holding, given: Circumstances) -> Holding:
    """Give the document the common values, except for what is local; raises ValueError if it would not be valid."""
    resource, record, present = held.resource, held.record, held.document
    if held.is_local or not given.rules.includes(resource):
        return held
    if not record.exists:
        return held if record.deleted is None else replace(held, document=None, marks={})
    if present is None and not given.is_allowed:
        return replace(held, marks={WHOLE: held.marks.get(WHOLE, Mark(given.now_ms, Reason.DROPPED))})
    common = {unit: edit.value for unit, edit in record.edits.items() if edit.value is not REMOVED}
    if present is None:
        copies = given.rules.copying(resource)
        units = {unit: value for unit, value in common.items() if copies(unit)}
        return replace(held, document=document_with(resource.kind, units), marks={})
    here, marks = units_of(resource.kind, present), _kept_marks(held, common, given)
    shares = given.rules.sharing(resource)
    units = {unit: value for unit, value in common.items() if unit not in marks and shares(unit)}
    units |= {unit: value for unit, value in here.items() if unit in marks or not shares(unit)}
    return replace(held, document=document_with(resource.kind, units), marks=marks)


def adopted(held: Holding, previous: Rules, created: Timestamp | None, given: Circumstances) -> tuple[Holding, Record]:
    """Record the edits that were made while nothing was recorded, and apply the rules if they were changed.

    ``previous`` are the rules until now, and ``created`` the time of the document's last change, which counts if no
    edit of it is known. Returns the holding after it, and the edits to publish.
    """
    resource, record, document = held.resource, held.record, held.document
    nothing = Record(resource.kind)
    if WHOLE in held.marks or not given.rules.includes(resource):
        return held, nothing
    if document is not None and record.is_empty:
        assert created is not None
        edits = {unit: Edit(created, value) for unit, value in own_units(resource.kind, document).items()}
        copies = given.rules.copying(resource)
        edits = {unit: edit for unit, edit in edits.items() if copies(unit) and unit not in held.marks}
        if held.marks and not edits:
            return held, nothing
        record = Record(resource.kind, created, None, edits)
        return replace(held, record=record), record
    if not previous.includes(resource):
        return returned(held, given), nothing
    expected = replace(held, document=normal(resource.kind, record.document()), marks={})
    if document is None and resource.kind in LOCAL_DELETIONS:
        return held, nothing
    _, published = edited(expected, document, given)
    if expected.document is not None:
        shared = previous.sharing(resource)
        edits = {unit: edit for unit, edit in published.edits.items() if unit not in held.marks and shared(unit)}
        published = replace(published, edits=edits)
    after = replace(held, record=record.merge(published))
    return (after if given.rules == previous else applied(after, given)), published


def ended(
    held: Holding, units: Iterable[str], created: Timestamp | None, given: Circumstances
) -> tuple[Holding, Record]:
    """Remove the marks of units, whose values are the common ones again.

    A resource that the other clusters do not know is published, at the time of its last change, ``created``. Returns
    the holding after it, and the edits to publish.
    """
    marks = {unit: mark for unit, mark in held.marks.items() if unit not in units}
    unmarked = replace(held, marks=marks)
    if held.document is not None and held.record.is_empty:
        return adopted(unmarked, given.rules, created, given)
    return returned(unmarked, given), Record(held.resource.kind)


def dropped(held: Holding, given: Circumstances) -> Holding:
    """Drop a resource whose tenant does not allow this cluster, without a deletion in the others.

    What the others do not have stays: it would be lost.
    """
    if held.document is None or held.is_local or not held.record.exists or not given.rules.includes(held.resource):
        return held
    return replace(held, document=None, marks={WHOLE: Mark(given.now_ms, Reason.DROPPED)})


def returned(held: Holding, given: Circumstances) -> Holding:
    """Return a resource to the common state, where neither a rule nor a mark forbids it.

    If it is deleted there and has topics here, it becomes local instead, so that its messages stay available.
    """
    deleted = held.record.deleted is not None and not held.record.exists
    if deleted and held.document is not None and given.has_topics():
        return replace(held, marks={WHOLE: Mark(given.now_ms, Reason.EDIT)})
    return applied(held, given)


def _shared(held: Holding, after: Document, given: Circumstances, kept: Iterable[str]) -> tuple[Holding, Record]:
    """Create or change a document with an edit for all clusters; the units that are ``kept`` are edited as well."""
    resource, known, before = held.resource, held.record, held.document
    is_new = not known.exists and (before is None or resource.kind is ResourceType.TOPIC_POLICIES)
    units: dict[str, Any] = own_units(resource.kind, after)
    if before is not None:
        new = units_of(resource.kind, after)
        units = {unit: new.get(unit, REMOVED) for unit in (*changed_units(resource.kind, before, after), *kept)}
    elif is_new and known.deleted is not None:
        # Known edits were made concurrently with the deletion before. Without one, the creation has not arrived.
        units = {**dict.fromkeys(known.edits, REMOVED), **units}
    else:
        # The other clusters have it already. What is not given here has their values.
        units = {unit: value for unit, value in units.items() if not _has(known, unit, value)}
    shares = given.rules.copying(resource) if is_new else given.rules.sharing(resource)
    units = {unit: value for unit, value in units.items() if shares(unit)}
    marks = {unit: mark for unit, mark in held.marks.items() if before is not None and unit not in units}
    changed, published = replace(held, document=after, marks=marks), Record(resource.kind)
    if units or is_new:
        timestamp = given.next_timestamp()
        published.created = timestamp if is_new else None
        replaced = {unit: edit.timestamp for unit, edit in known.edits.items()}
        published.edits = {unit: Edit(timestamp, value, replaced.get(unit)) for unit, value in units.items()}
        changed = replace(changed, record=known.merge(published))
    is_completed = (before is None or is_new) and (known.exists or (known.deleted is None and bool(known.edits)))
    return (applied(changed, given) if is_completed else changed), published


def _has(record: Record, unit: str, value: object) -> bool:
    known = record.edits.get(unit)
    return known is not None and known.value == value


def _kept_marks(held: Holding, common: dict[str, Any], given: Circumstances) -> Marks:
    """Return the marks of units that stay local. More partitions than in the other clusters are local: they stay."""
    marks = {unit: mark for unit, mark in held.marks.items() if unit != WHOLE}
    if held.resource.kind is ResourceType.TOPICS and held.document is not None:
        is_larger = _count(held.document.get("partitions")) > _count(common.get(PARTITIONS))
        mark = marks.pop(PARTITIONS, Mark(given.now_ms, Reason.EDIT))
        if is_larger:
            marks[PARTITIONS] = mark
    return marks


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
