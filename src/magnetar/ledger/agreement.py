"""Bringing the log and the metadata store to agree, once, after both were opened and before a topic is loaded.

The metadata is read before the log is opened, which needs the highest ledger id that the metadata names.

The metadata store syncs every change. The log may lag behind it: with ``journalSyncData=false`` entries are confirmed
before they are on the disk, and a power loss takes the newest of them. And the log may hold ledgers that nothing lists
any more, left behind by an interrupted change of the metadata.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from magnetar.base.errors import CorruptionError, DiskFullError
from magnetar.base.position import Position
from magnetar.ledger.deletions import finish_deletions, noted_deletions
from magnetar.metadata.resources import DELETED_TOPIC, MANAGED_LEDGERS, Topics, managed_ledger_path
from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import Delete, Put

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from magnetar.ledger.local import LocalLedgerStore
    from magnetar.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

_SWEPT_FROM = "/ledgers-swept-from"
"""Where the lowest ledger id is stored that a sweep may delete."""

_LOSS_BOUNDARIES = "/ledgers-loss-boundaries"
"""Where the loss boundaries are stored, as a JSON list."""

_TOPIC_DEPTH, _CURSOR_DEPTH = 5, 7
"""Slashes in the path of a ledger list (``managed_ledger_path``), and of a cursor, at ``cursors/<name>`` below."""

LOST_PROPERTY = "magnetar.lost"
"""Managed-ledger property of a topic that may lack entries: how many are known to be lost. More may be lost."""


class LostEntries(NamedTuple):
    """Entries of a topic that were confirmed and are not in the log: ``first`` to ``last``, both ends included."""

    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Ledgers of the log that nothing names."""

    garbage: list[int]
    """These were listed once and are not any more, or never held an entry that was confirmed."""
    unknown: list[int]
    """These may be data: of topics whose metadata was lost, or is an older copy."""


@dataclass(frozen=True, slots=True)
class NamedLedgers:
    """The ledgers that the metadata names."""

    confirmed: dict[int, int]
    """Ledger id to the entries that were confirmed in it; 0 for a cursor's ledger and for one that is being deleted."""
    unreadable: str | None
    """Path and error of a record that cannot be read; then ``confirmed`` may lack ledgers."""
    deleted: list[str]
    """Paths of records that a crash left of deleted topics."""

    @property
    def highest(self) -> int:
        """The highest ledger id; 0 for none."""
        return max((0, *self.confirmed))


def read_named_ledgers(metadata: MetadataStore) -> NamedLedgers:
    """Read the records of all topics and cursors, and the noted deletions; changes nothing."""
    named = dict.fromkeys(noted_deletions(metadata), 0)
    unreadable: str | None = None
    deleted: list[str] = []
    for path, value in metadata.below(MANAGED_LEDGERS):
        depth = path.count("/")
        is_topic, is_cursor = depth == _TOPIC_DEPTH, depth == _CURSOR_DEPTH and path.rsplit("/", 2)[1] == "cursors"
        if not (is_topic or is_cursor):
            continue
        if value == DELETED_TOPIC:
            deleted.append(path)
            continue
        try:
            record = json.loads(value)
            if is_topic:
                named.update((int(each["ledgerId"]), int(each["entries"])) for each in record["ledgers"])
                continue
            if "deleted" in record and not _is_topic(metadata, path.rsplit("/", 2)[0]):
                deleted.append(path)
            if (ledger_id := int(record["cursorsLedgerId"])) >= 0:  # else the cursor has no ledger
                named.setdefault(ledger_id, 0)
        except (ValueError, KeyError, TypeError) as error:
            unreadable = f"{path}: {error!r}"
    return NamedLedgers(named, unreadable, deleted)


def _is_topic(metadata: MetadataStore, path: str) -> bool:
    stored = metadata.get(path)
    return stored is not None and stored.value != DELETED_TOPIC


def bring_to_agreement(store: LocalLedgerStore, metadata: MetadataStore, named: NamedLedgers) -> tuple[int, ...]:
    """Finish interrupted deletions, accept what a log without syncs lost, and delete what nothing lists.

    ``named`` was read from the metadata, which has not changed since.

    Returns the loss boundaries, ascending: the next ledger id at each start that may have lacked entries, and what a
    repair added. Other clusters may hold lost entries of lower ledgers, so there may have been entries between any two
    on both sides of a boundary.

    On a full disk the metadata store gets the room that is held back. Raises DiskFullError where that is not enough.
    """
    try:
        return _agree(store, metadata, named)
    except DiskFullError:
        if not store.give_reserve():
            raise
        return _agree(store, metadata, named)


def _agree(store: LocalLedgerStore, metadata: MetadataStore, named: NamedLedgers) -> tuple[int, ...]:
    """See ``bring_to_agreement``; what a failure left undone is done by the next call."""
    finish_deletions(store, metadata)
    for path in named.deleted:
        commit_at_start(metadata, [Delete(path)])
    if named.unreadable is None:
        _sweep(store, metadata, named.confirmed)
    else:
        log.warning("ledgers_not_swept", error=named.unreadable)
    try:
        boundaries = loss_boundaries(metadata)
    except CorruptionError as error:
        log.warning("loss_boundaries_unknown", error=str(error), remedy="every ledger counts as one behind a boundary")
        boundaries = [*store.list(), store.next_ledger_id]
        commit_at_start(metadata, [keep_loss_boundaries(boundaries)])
    if store.may_lack_entries:
        # For every topic: its list says only how many entries were durable when the list was written.
        boundaries = needed_boundaries([*boundaries, store.next_ledger_id], store.list())
        commit_at_start(metadata, [keep_loss_boundaries(boundaries)])
        _accept_losses(store, metadata)
        store.losses_accepted()
    return tuple(boundaries)


def loss_boundaries(metadata: MetadataStore) -> list[int]:
    """Return the stored loss boundaries, ascending; raises CorruptionError, naming the record, if it is unreadable."""
    stored = metadata.get(_LOSS_BOUNDARIES)
    try:
        return [] if stored is None else [int(each) for each in json.loads(stored.value)]
    except (ValueError, TypeError) as error:
        message = f"{_LOSS_BOUNDARIES}: the record cannot be read: {error!r}"
        raise CorruptionError(message) from error


def keep_loss_boundaries(boundaries: Collection[int]) -> Put:
    """Return the change that stores these loss boundaries, and no others."""
    return Put(_LOSS_BOUNDARIES, json.dumps(sorted(set(boundaries))).encode())


def needed_boundaries(boundaries: Collection[int], existing: Sequence[int]) -> list[int]:
    """Return the newest loss boundary and those that have a ledger between them and the next one, ascending.

    Only these divide entries that exist. ``existing`` are the ledgers of the log, ascending. The result has at most one
    boundary more than the log has ledgers.
    """
    ascending = sorted(set(boundaries))
    dividing = [
        boundary
        for boundary, following in pairwise(ascending)
        if bisect_left(existing, boundary) < bisect_left(existing, following)
    ]
    return dividing + ascending[-1:]


def shorten(stored: dict[str, Any], length_of: Mapping[int, int]) -> list[LostEntries]:
    """Take out of a topic's list what the log does not hold, and return that; ``length_of`` has the log's ledgers.

    The last position goes back to the newest entry left. Positions that are taken out are never used again: the next
    entry goes to a new ledger, whose id is above all that were given.
    """
    lost: list[LostEntries] = []
    newest: Position | None = None
    for ledger in stored["ledgers"]:
        ledger_id, confirmed = ledger["ledgerId"], ledger["entries"]
        entries = length_of.get(ledger_id, 0)
        if entries < confirmed:
            lost.append(LostEntries(Position(ledger_id, entries), Position(ledger_id, confirmed - 1)))
            ledger["entries"] = entries
        if entries:
            newest = Position(ledger_id, entries - 1)
    if lost:
        first = lost[0].first
        stored["lastPosition"] = str(newest or Position(first.ledger_id, first.entry_id - 1))
    return lost


def note_losses(properties: dict[str, str], lost: Sequence[LostEntries]) -> None:
    """Note in a topic's properties that it may lack entries, ``lost`` among them, besides those of earlier losses."""
    count = sum(last.entry_id - first.entry_id + 1 for first, last in lost)
    properties[LOST_PROPERTY] = str(int(properties.get(LOST_PROPERTY, "0")) + count)


def find_unlisted(existing: Collection[int], confirmed: Mapping[int, int], swept_from: int) -> Unlisted:
    """Divide the ledgers that nothing names; ``confirmed`` has those that are named, ``swept_from`` may be deleted.

    A ledger is listed before its first entry is written, and ids grow. A metadata store that names a lower and a higher
    ledger was there when a ledger in between was created: it has listed that one, and does not any more. Nothing
    follows for a ledger outside of these bounds, nor if the log lacks a ledger that is named with entries: then the
    two do not belong together, or one of them is an older copy.
    """
    present = set(existing)
    unlisted = sorted(present - confirmed.keys())
    belong_together = all(ledger_id in present for ledger_id, entries in confirmed.items() if entries)
    if not confirmed or not belong_together:
        return Unlisted([], unlisted)
    lowest, highest = max(swept_from, min(confirmed)), max(confirmed)
    garbage = [ledger_id for ledger_id in unlisted if lowest <= ledger_id < highest]
    return Unlisted(garbage, sorted(set(unlisted) - set(garbage)))


def keep_unlisted(existing: Collection[int]) -> Put:
    """Return the change that keeps every existing ledger from being deleted by a sweep, whether it is listed or not."""
    return Put(_SWEPT_FROM, str(max(existing, default=0) + 1).encode())


def _sweep(store: LocalLedgerStore, metadata: MetadataStore, confirmed: dict[int, int]) -> None:
    existing = store.list()
    stored = metadata.get(_SWEPT_FROM)
    try:
        swept_from = 0 if stored is None else int(stored.value)
    except ValueError:
        # Nobody knows which unlisted ledgers may be data: keep all that are there, as for a lost record of a topic.
        kept = keep_unlisted(existing)
        log.warning("ledgers_not_swept", path=kept.path, error="the record is no number", now=kept.value.decode())
        commit_at_start(metadata, [kept])
        swept_from = int(kept.value)
    found = find_unlisted(existing, confirmed, swept_from)
    if found.unknown:
        size_bytes = sum(map(store.size_bytes, found.unknown))
        log.warning("ledgers_not_listed", ledgers=len(found.unknown), size_bytes=size_bytes, first=found.unknown[0])
        if found.unknown[-1] >= swept_from:  # later ledgers must not make garbage of these
            commit_at_start(metadata, [Put(_SWEPT_FROM, str(existing[-1] + 1).encode())])
    if found.garbage:
        size_bytes = sum(map(store.size_bytes, found.garbage))
        log.info("orphaned_ledgers_deleted", ledgers=len(found.garbage), size_bytes=size_bytes)
        for ledger_id in found.garbage:
            store.delete(ledger_id)


def _accept_losses(store: LocalLedgerStore, metadata: MetadataStore) -> None:
    """Shorten the topics' lists to what the log holds, and name what is lost; topics that may lack more say so."""
    length_of = {ledger_id: store.length(ledger_id) for ledger_id in store.list()}
    puts: list[Put] = []
    for name in Topics(metadata).all():
        found = metadata.get(managed_ledger_path(name))
        if found is None:
            continue
        try:
            stored = json.loads(found.value)
            foreign = [each["ledgerId"] for each in stored["ledgers"] if not store.ids.has_given(each["ledgerId"])]
            if foreign:  # its files are gone, which is no loss of recent entries: it refuses, when it is loaded
                log.warning("losses_not_accepted", topic=str(name), error=f"the log does not know ledger {foreign[0]}")
                continue
            # The list of a ledger that is not closed tells only how many entries were confirmed when it was written.
            may_lack_more = any(each["closedAt"] is None for each in stored["ledgers"])
            lost = shorten(stored, length_of)
            if lost or may_lack_more:
                note_losses(stored["properties"], lost)
        except (ValueError, KeyError, TypeError) as error:  # only this topic refuses, when it is loaded
            log.warning("losses_not_accepted", topic=str(name), error=repr(error))
            continue
        if lost or may_lack_more:
            puts.append(Put(managed_ledger_path(name), json.dumps(stored).encode(), found.version))
        for first, last in lost:
            log.warning("entries_lost_without_sync", topic=str(name), first=str(first), last=str(last))
    if puts:
        commit_at_start(metadata, puts)
