"""The changes that administration made in all clusters, with their timestamps, and the checks of each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from magnetar.metadata.store import Put
from magnetar.sim.metasync.replay import (
    DEFAULTS,
    PARTITIONS,
    ROUTE,
    Change,
    Kind,
    Stamp,
    State,
    is_shared,
    kind_of,
    own,
    route_order,
    stamps,
    units,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.metadata.store import Delete, MetadataStore
    from magnetar.sim.virtual.loop import HandClock

ROOT = "/magnetar/metadata-sync"
RECORDS, OUTBOX, CLOCK = f"{ROOT}/records", f"{ROOT}/outbox", f"{ROOT}/clock"

Record = dict[str, Any]

_NO_RECORD: Record = {"edits": {}}


class _Own(NamedTuple):
    """The fields that belong to a cluster, and the last deletion of the document that was known there."""

    fields: dict[str, Any]
    deleted: list[Any] | None


class Cluster(Protocol):
    """A cluster whose changes are recorded."""

    name: str
    clock: HandClock

    @property
    def metadata(self) -> MetadataStore:
        """The store, also while the broker is down."""
        ...

    @property
    def is_member(self) -> bool:
        """Whether the cluster belongs to the others."""
        ...

    def is_own(self, path: str) -> bool:
        """Return whether a document is not synchronized, because the event topic needs it."""
        ...


class History:
    """All changes, by path and by timestamp."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        """Begin without changes; ``violate`` reports a violation."""
        self.violate = violate
        self.sites: dict[str, Cluster] = {}
        """All clusters by name, filled before they start."""
        self.changes: dict[str, list[Change]] = {}
        self.by_stamp: dict[Stamp, list[Change]] = {}
        """Several ones only if they were adopted at the start."""
        self.deleted_locally: dict[tuple[str, str], None] = {}
        """Clusters and paths of topics that were deleted there and may be absent there."""
        self._own: dict[tuple[str, str], _Own] = {}
        """By cluster and path, the fields of a document that belong to the cluster."""
        self._newest: dict[str, Stamp] = {}
        """By cluster, the newest timestamp of a durable change on its disk."""

    # -- changes of administration ----------------------------------------------------------------------------------

    def draft(self, site: Cluster, operation: Put | Delete) -> Draft | None:
        """Return the change that an operation is about to make; None if it is none of a synchronized document."""
        kind = kind_of(operation.path)
        if kind is None or site.is_own(operation.path):
            return None
        before = _json(site.metadata, operation.path)
        after = json.loads(operation.value) if isinstance(operation, Put) else None
        if before == after:
            return None
        if after is None and not kind.is_deleted_everywhere:
            self.deleted_locally[site.name, operation.path] = None
        return Draft(site, operation.path, kind, before, after)

    def made(self, draft: Draft) -> Change | None:
        """Add a change that was submitted; check that it is recorded, and later than all that was seen before."""
        change = draft.change
        if change is None:
            return None
        before, after = draft.record, record_of(draft.site.metadata, change.path)
        known = set(stamps(before))
        new = [stamp for stamp in stamps(after) if stamp not in known and stamp.cluster == change.site]
        if not new:
            self.violate(f"M: {change} is not recorded")
            return None
        change.stamp = max(new, key=lambda stamp: stamp.order)
        self._check_time(change, list(stamps(before)))
        self._add(change)
        return change

    def _check_time(self, change: Change, seen: list[Stamp]) -> None:
        """M: a change is later than those that it follows in its cluster, and follows a wall clock that was shown."""
        place = change.stamp[:2]
        newest = self._newest.get(change.site)
        for earlier in [*seen, *([newest] if newest is not None else [])]:
            if earlier[:2] >= place:
                self.violate(f"M: {change} is not later than {tuple(earlier)}, which was known there")
        now_ms = int(self.sites[change.site].clock.now() * 1000)
        highest_ms = int(max(site.clock.highest for site in self.sites.values()) * 1000)
        if not now_ms <= change.stamp.time_ms <= highest_ms:
            self.violate(f"M: {change} has a time that no clock showed: {now_ms} to {highest_ms}")

    def _add(self, change: Change) -> None:
        same = self.by_stamp.setdefault(change.stamp, [])
        for other in same:
            if other.path == change.path and other.state is not State.LOST:
                self.violate(f"M: {change} has the timestamp of {other}")
        same.append(change)
        self.changes.setdefault(change.path, []).append(change)

    def ended(self, draft: Draft, error: StorageError | None) -> None:
        """Record that a change is durable or has failed."""
        if error is None:
            self._note_own(draft.site, draft.path, draft.after)
        change = draft.change
        if change is None or not change.stamp.cluster:
            return
        change.state = State.FAILED if error is not None else State.DURABLE
        if error is None:
            self._newest[change.site] = change.stamp

    def adopted(self, site: Cluster) -> None:
        """Add the creations that the synchronizer adopted when it started on a new disk."""
        for path, record in records(site.metadata):
            for stamp in stamps(record):
                kind = kind_of(path)
                known = any(change.path == path for change in self.by_stamp.get(stamp, ()))
                if stamp.cluster != site.name or known or kind is None:
                    continue
                if list(record.get("created") or ()) != list(stamp):
                    self.violate(f"M: an edit of {path} at {tuple(stamp)} in {site.name}, which nobody made")
                    return
                made = {unit: edit[0] for unit, edit in record["edits"].items() if Stamp(*edit[1:4]) == stamp}
                edits = {unit: value for unit, value in made.items() if is_shared(kind, unit)}
                self._add(Change(site.name, path, kind, edits, created=True, stamp=stamp, state=State.DURABLE))

    # -- fields that belong to a cluster ----------------------------------------------------------------------------

    def _note_own(self, site: Cluster, path: str, document: dict[str, Any] | None) -> None:
        kind = kind_of(path)
        self._own.pop((site.name, path), None)
        if document is not None and kind is not None:
            deleted = record_of(site.metadata, path).get("deleted")
            self._own[site.name, path] = _Own(own(kind, document), deleted)

    def deleted_in(self, site: Cluster, path: str) -> None:
        """Note that a document does not exist in a cluster any more."""
        self._own.pop((site.name, path), None)

    def own_fields(self, site: Cluster, path: str) -> dict[str, Any] | None:
        """Return the fields of a document that were set in a cluster and belong to it; None if none are known.

        A document that was deleted elsewhere and created again since has those of its creation.
        """
        found = self._own.get((site.name, path))
        if found is None or record_of(site.metadata, path).get("deleted") != found.deleted:
            return None
        return found.fields

    # -- events -----------------------------------------------------------------------------------------------------

    def queued(self, site: str, event: bytes) -> None:
        """M: the outbox contains changes of its own cluster only."""
        found = json.loads(event)
        foreign = [stamp for stamp in stamps(found["data"]) if stamp.cluster != site]
        if found["sourceCluster"] != site or foreign:
            self.violate(f"M: {site} publishes a change of another cluster again: {event.decode()}")

    def published(self, site: str, event: bytes) -> None:
        """M: an event contains only durable changes, and a cluster publishes its own ones."""
        found = json.loads(event)
        is_snapshot = found["eventType"] == "Snapshot"
        if not is_snapshot:
            self.queued(site, event)
        for stamp in stamps(found["data"]):
            for change in self.by_stamp.get(stamp, ()) if stamp.cluster == site else ():
                change.published = change.published or not is_snapshot
                if change.state is State.PENDING:
                    self.violate(f"M: {site} publishes {change} before it is durable")

    # -- restarts and lost disks ------------------------------------------------------------------------------------

    def restarted(self, site: Cluster) -> None:
        """Find out which changes the next process of a cluster has, before it runs; check what it must have."""
        found = {stamp for _, record in records(site.metadata) for stamp in stamps(record)}
        for change in self._made_in(site):
            if change.state in (State.PENDING, State.FAILED):
                change.state = State.DURABLE if change.stamp in found else State.LOST
        for name, path in list(self._own):
            if name == site.name:
                self._note_own(site, path, _json(site.metadata, path))
        self._check_outbox(site)
        clock = site.metadata.get(CLOCK)
        newest = (0, 0) if clock is None else Stamp(*json.loads(clock.value))[:2]
        late = [stamp for stamp in found if stamp[:2] > newest]
        if late:
            self.violate(f"M: the clock of {site.name} goes back to {newest} after {tuple(max(late))}")

    def _check_outbox(self, site: Cluster) -> None:
        """M: a durable change that is not published waits in the outbox."""
        waiting = {stamp for _, event in site.metadata.below(OUTBOX) for stamp in stamps(json.loads(event)["data"])}
        for change in self._made_in(site):
            if change.state is State.DURABLE and not change.published and change.stamp not in waiting:
                self.violate(f"M: {change} was never published")

    def disk_lost(self, site: Cluster) -> None:
        """Note which changes may be lost with the disk of a cluster: those that no other cluster has."""
        for change in self._made_in(site):
            if change.state in (State.PENDING, State.FAILED):
                change.state = State.LOST
            change.published = True  # the outbox is lost
        self.left(site)
        self._newest.pop(site.name, None)
        for of in (self._own, self.deleted_locally):
            for key in [key for key in of if key[0] == site.name]:
                del of[key]

    def left(self, site: Cluster) -> None:
        """Note that the changes of a cluster that leaves are uncertain if no other cluster has them."""
        others = [each for each in self.sites.values() if each is not site and each.is_member]
        for path, changes in self.changes.items():
            known = [record_of(other.metadata, path) for other in others]
            for change in changes:
                if change.state is State.DURABLE and not any(_has(record, change) for record in known):
                    change.state = State.UNCERTAIN

    def _made_in(self, site: Cluster) -> Iterator[Change]:
        return (change for changes in self.changes.values() for change in changes if change.site == site.name)

    def counted(self, path: str, evident: set[Stamp]) -> list[Change]:
        """Return the changes of a document that must be in force; ``evident``: all timestamps that clusters have."""
        return [
            change
            for change in self.changes.get(path, ())
            if change.state is State.DURABLE or (change.state is State.UNCERTAIN and change.stamp in evident)
        ]


class Draft:
    """A change that is being submitted."""

    def __init__(
        self,
        site: Cluster,
        path: str,
        kind: Kind,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> None:
        """Note the states before and after; None: it does not exist."""
        self.site = site
        self.path = path
        self.kind = kind
        self.after = after
        self.record = record_of(site.metadata, path)
        """The record before the change."""
        self.change = self._change(before)

    def _change(self, before: dict[str, Any] | None) -> Change | None:
        """Return the change of values that all clusters share; None if it has none."""
        kind, after = self.kind, self.after
        if after is None:
            deleted = Change(self.site.name, self.path, kind, {}, deleted=True)
            return deleted if kind.is_deleted_everywhere else None
        new = units(kind, after)
        if before is not None:
            old = units(kind, before)
            changed = {unit: new.get(unit) for unit in {**old, **new} if old.get(unit) != new.get(unit)}
            return Change(self.site.name, self.path, kind, changed) if changed else None
        given = {unit: value for unit, value in new.items() if value != DEFAULTS[kind].get(unit)}
        if _exists(self.record) or not self.record.get("deleted"):
            given = {unit: value for unit, value in given.items() if self._is_news(unit, value)}
        else:  # the known edits are of the deleted resource
            given = {unit: None for unit in self.record["edits"] if is_shared(kind, unit)} | given
        if _exists(self.record):  # only this cluster lacks the resource
            return Change(self.site.name, self.path, kind, given) if given else None
        return Change(self.site.name, self.path, kind, given, created=True)

    def _is_news(self, unit: str, value: Any) -> bool:
        """Return whether the other clusters do not have a value; the number of partitions only grows."""
        known, *_ = self.record["edits"].get(unit, [None])
        return value > (known or 0) if unit == PARTITIONS else bool(value != known)


def records(store: MetadataStore) -> Iterator[tuple[str, Record]]:
    """Yield the paths of all documents with a record, and the records."""
    for path, value in store.below(RECORDS):
        yield path.removeprefix(RECORDS), json.loads(value)


def record_of(store: MetadataStore, path: str) -> Record:
    """Return the record of the document at ``path``."""
    return _json(store, RECORDS + path) or _NO_RECORD


def documents(site: Cluster) -> dict[str, dict[str, Any]]:
    """Return the synchronized documents of a cluster by path."""
    roots = ("/admin/policies", "/admin/partitioned-topics", "/admin/topic-policies", "/magnetar/routes")
    found: Sequence[tuple[str, bytes]] = [each for root in roots for each in site.metadata.below(root)]
    return {path: json.loads(value) for path, value in found if not site.is_own(path)}


def _json(store: MetadataStore, path: str) -> dict[str, Any] | None:
    stored = store.get(path)
    return None if stored is None else json.loads(stored.value)


def _exists(record: Record) -> bool:
    created, deleted = record.get("created"), record.get("deleted")
    return created is not None and (deleted is None or Stamp(*deleted).order < Stamp(*created).order)


def _has(record: Record, change: Change) -> bool:
    """Return whether a record has a change, or a later one that replaced it."""
    deleted = record.get("deleted")
    if deleted is not None and Stamp(*deleted).order >= change.stamp.order:
        return True
    if change.deleted:
        return False
    created = record.get("created")
    if change.created and (created is None or Stamp(*created).order < change.stamp.order):
        return False
    return all(_has_unit(record["edits"].get(unit), unit, value, change.stamp) for unit, value in change.units.items())


def _has_unit(edit: list[Any] | None, unit: str, value: Any, stamp: Stamp) -> bool:
    if edit is None:
        return False
    if unit == PARTITIONS:  # a later edit with fewer partitions replaces none
        return bool(edit[0] >= value)
    if unit == ROUTE:  # neither does a later edit with an earlier epoch
        return route_order(edit[0]) >= route_order(value)
    return Stamp(*edit[1:4]).order >= stamp.order
