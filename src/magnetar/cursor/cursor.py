"""A cursor: acknowledgement state that survives, written in proportion to what changes.

Records go to the cursor's own ledger in the store that its topic uses too, so they share its group commit. A record
is written as the annotation of a run with one empty entry: the store keeps annotations in its index, so opening a
topic recovers all its cursors without reading an entry. A record that is larger than one write may be is written in
pieces, which count together or not at all. A flush writes a delta or, when the deltas have outgrown the last
checkpoint, a checkpoint; what lies before a durable checkpoint is trimmed.

Nothing is left out because of its size. Beyond a limit of ranges, or of batches that are acknowledged in part, the
excess is not persisted and counted, unless the owner takes care of the limit itself (``persists_all``).

While the ledger cannot be written, what it lacks goes to the metadata store, as far as that may hold it.

The metadata store holds, at the cursor's path, which ledger that is, where the cursor began, and the subscription's
properties. A ledger that is not in the store was never written to, since the store refuses to open with one missing:
then the cursor is where it began, for nothing else was ever confirmed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.base.errors import StorageError
from magnetar.base.parts import Part
from magnetar.base.position import Position
from magnetar.cursor.fallback import Fallback, fallback_record
from magnetar.cursor.limits import DEFAULT_LIMITS
from magnetar.cursor.persisted import PersistedBatches, PersistedEntries
from magnetar.cursor.ranges import DeletedEntries
from magnetar.cursor.records import Change, Recovered, encode_record, entries_beyond, pieces_of, record_of
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from magnetar.cursor.limits import CursorLimits
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import CursorState, PositionSpace
    from magnetar.ledger.store import LedgerStore, OnDurable
    from magnetar.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

CHECKPOINT_AFTER_BYTES = 64 * 1024
"""Bytes of deltas that are worth a checkpoint, however small it is."""

CHECKPOINT_AFTER_TIMES = 2
"""Times its own size that deltas may grow behind a checkpoint: bounds recovery, and what checkpoints cost over all."""

CHECKPOINT_AFTER_DELTAS = 10_000
"""Deltas that are worth a checkpoint, however large it is: bounds recovery where each of them is tiny."""

SMALL_CHECKPOINT_AFTER_DELTAS = 1_000
"""Deltas that are worth a checkpoint that is small beside them: bounds the memory that the log keeps for their runs."""

SMALL_CHECKPOINT_TIMES = 8
"""A checkpoint is small beside deltas that take so many times its bytes."""


@dataclass(frozen=True, slots=True)
class CursorHome:
    """Where a cursor is kept, and within which limits; ``path`` is None for one that is not durable."""

    store: LedgerStore
    metadata: MetadataStore
    path: str | None
    limits: CursorLimits = DEFAULT_LIMITS
    failed: Callable[[StorageError], None] = lambda _: None
    """Told that the record of a new cursor could not be stored, so that there is no such cursor."""


class Cursor(Part):
    """One subscription's durable acknowledgement state. Read ``state``; change it only through the cursor."""

    def __init__(self, home: CursorHome, name: str, state: CursorState) -> None:
        """A new cursor at ``state``; made by ``CursorStore``."""
        self.name = name
        self.state = state
        self.properties: dict[str, int] = {}
        self.subscription_properties: dict[str, str] = {}
        self.attachments: list[bytes] = []
        """What the owner attached, as recovered: a checkpoint's, then the deltas', oldest first."""
        self.ledger_id: int | None = None
        self.unpersisted_entries = 0
        """Entries whose acknowledgement is beyond the limit as of the last flush: after a crash they come again."""
        self.delta_bytes_written = 0
        self.checkpoint_bytes_written = 0
        """Bytes of all records handed to the ledger, by their kind."""
        self._persists_all = False
        self._home = home
        self._began = state.mark_delete_position
        self._owner: Callable[[], bytes | None] | None = None
        self._change = Change()  # since the last flush
        self._unconfirmed: list[Change] = []  # of the records that are on their way, oldest first
        self._mark_written = state.mark_delete_position
        self._persisted: PersistedEntries | None = None  # None: all that was flushed is
        self._batches = PersistedBatches(home.limits.batch_deleted_max)
        self._checkpoint_due = True
        self._closed = False
        self._is_recorded = True
        """Whether the record at the cursor's path is durable. Until then its ledger takes nothing."""
        self._waiting: list[OnDurable] = []
        """Told of the flush that follows when the record is durable."""
        self._checkpoint_bytes = 0
        self._delta_bytes = 0
        self._deltas = 0
        self._failure: StorageError | None = None  # of the last write, unless the metadata store took all of it
        self._fallback: Fallback | None = None
        self._fallbacks = 0
        self.recovered_through: Position | None = None
        """The newest entry that its records acknowledge on its own, even where the log has none."""

    @property
    def durable(self) -> bool:
        """Whether it outlives the broker."""
        return self._home.path is not None

    @property
    def is_being_recorded(self) -> bool:
        """Whether the cursor is new, and its record is on its way to the disk."""
        return not self._is_recorded

    @property
    def began(self) -> Position:
        """The mark-delete position that it was created with."""
        return self._began

    # --- changes ---------------------------------------------------------------------------------------------------

    def acknowledge_ranges(self, ranges: Iterable[Range]) -> list[Range]:
        """See ``CursorState.acknowledge_ranges``."""
        return self._note(self.state.acknowledge_ranges(ranges))

    def acknowledge_cumulative(self, position: Position) -> list[Range]:
        """See ``CursorState.acknowledge_cumulative``."""
        return self._note(self.state.acknowledge_cumulative(position))

    def acknowledge_batch(self, position: Position, remaining: int, batch_size: int | None = None) -> list[Range]:
        """See ``CursorState.acknowledge_batch``."""
        before = self.state.remaining(position)
        newly = self.state.acknowledge_batch(position, remaining, batch_size)
        if self.durable and self.state.remaining(position) != before:
            self._change.partial[position] = None
        return self._note(newly)

    def reset(
        self,
        mark_delete: Position,
        deleted: Iterable[Range] = (),
        partial: Iterable[tuple[Position, int]] = (),
    ) -> None:
        """See ``CursorState.reset``; written as a checkpoint, so that it is taken whole or not at all."""
        self.state.reset(mark_delete, deleted, partial)
        self._change.merge(Change(replaced=True))
        self._checkpoint_due = True

    def set_property(self, name: str, value: int | None) -> None:
        """Set a property that is kept with the acknowledgements, or remove it; durable with the next flush."""
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value
        self._change.properties = True

    def set_subscription_properties(self, properties: Mapping[str, str]) -> None:
        """Replace the subscription's properties; durable on return."""
        self.subscription_properties = dict(properties)
        self._save()

    def attach(self, data: bytes) -> None:
        """Have the next flush write ``data`` of the owner with it; there must be an owner."""
        assert self._owner is not None, f"cursor {self.name} has no owner to attach for"
        self._change.attached.append(data)

    @property
    def checkpoint_attachment(self) -> Callable[[], bytes | None] | None:
        """Gives, for a checkpoint, all that the owner attached so far, as one; None when nobody attaches.

        An owner takes ``attachments`` over before it sets this; until then they are kept as they are. An owner that
        leaves (None), or that begins where there were none, has the next flush write a checkpoint, so that nothing of
        another time comes back.
        """
        return self._owner

    @checkpoint_attachment.setter
    def checkpoint_attachment(self, give: Callable[[], bytes | None] | None) -> None:
        if give is None or not self.attachments:
            self._checkpoint_due = True
        self._owner = give
        self.attachments = []

    def _note(self, newly: list[Range]) -> list[Range]:
        if self.durable:  # else no flush ever takes it
            self._change.deleted += newly
        return newly

    # --- durability ------------------------------------------------------------------------------------------------

    @property
    def persists_all(self) -> bool:
        """Whether the limits are not applied here, because the owner sees to it that they are kept."""
        return self._persists_all

    @persists_all.setter
    def persists_all(self, value: bool) -> None:
        if value and (self.unpersisted_entries or self.unpersisted_batches):
            self._checkpoint_due = True
        self._persists_all = value

    @property
    def unpersisted_batches(self) -> int:
        """Batches acknowledged in part of which the latest is beyond the limit: after a crash more of them comes."""
        return len(self._batches.excess)

    @property
    def changed(self) -> bool:
        """Whether the next flush has something to write."""
        change = self._change
        return bool(
            self._checkpoint_due
            or change.attached
            or change.properties
            or change.deleted
            or change.partial
            or self.state.mark_delete_position != self._mark_written
        )

    def flush(self, on_durable: OnDurable) -> None:
        """Write what changed, as one record; ``on_durable`` is told when it and all before it are durable, or why not.

        After an error the next flush writes everything. Nothing is written once the cursor is closed.
        """
        if not self.durable:
            on_durable(None)
        elif self._closed:
            on_durable(StorageError(f"cursor {self.name} was closed with its topic, which may be loaded anew"))
        elif not self._is_recorded:
            self._waiting.append(on_durable)
        elif self.changed:
            self._write(on_durable, checkpoint=self._checkpoint_due or self._is_outgrown)
        else:
            self._home.store.barrier(lambda error: on_durable(error and self._failure))

    @property
    def _is_outgrown(self) -> bool:
        """Whether a checkpoint is worth more than the deltas since the last one."""
        deltas, size, checkpoint = self._deltas, self._delta_bytes, self._checkpoint_bytes
        return (
            size > max(CHECKPOINT_AFTER_BYTES, CHECKPOINT_AFTER_TIMES * checkpoint)
            or deltas >= CHECKPOINT_AFTER_DELTAS
            or (deltas >= SMALL_CHECKPOINT_AFTER_DELTAS and size >= SMALL_CHECKPOINT_TIMES * checkpoint)
        )

    def checkpoint(self, on_durable: OnDurable) -> None:
        """Write everything anew, so that older records need no space any more."""
        self._checkpoint_due = True
        self.flush(on_durable)

    def close(self) -> None:
        """Refuse to write any more: whoever opens the cursor next goes on from the last flush, alone."""
        self._closed = True

    def _write(self, on_durable: OnDurable, *, checkpoint: bool) -> None:
        store, ledger_id = self._home.store, self.ledger_id
        assert ledger_id is not None, self.name
        change, fallbacks = self._change, self._fallbacks
        data = self._record(checkpoint=checkpoint)
        self._unconfirmed.append(change)
        self._change, self._checkpoint_due = Change(), False
        self._mark_written = self.state.mark_delete_position

        def written(error: StorageError | None) -> None:
            if error is not None:
                self._failed(change, error)
                on_durable(self._failure)
                return
            self._unconfirmed = [each for each in self._unconfirmed if each is not change]
            self._failure = None
            if checkpoint:
                with suppress(StorageError):  # the cursor was deleted meanwhile
                    store.trim(ledger_id, first)
                if self._fallback is not None:
                    # Behind the trim: that is synced even where records are not, and the checkpoint with it.
                    store.barrier(lambda error: self._forget_fallback(fallbacks) if error is None else None)
            on_durable(None)

        *others, last = pieces_of(data, self._home.limits.record_bytes_max)
        firsts = [store.append(ledger_id, (b"",), _with_the_last, piece) for piece in others]
        first = [*firsts, store.append(ledger_id, (b"",), written, last)][0]

    def _record(self, *, checkpoint: bool) -> bytes:
        """What to write now, and note that it is written."""
        mark, change = self.state.mark_delete_position, self._change
        added = self._admit(change)
        batches = self._batches.admit(self.state, change.partial, everything=self._persists_all)
        if checkpoint:
            deleted = self.state.individually_deleted if self._persisted is None else self._persisted.entries
            partial = [each for each in self.state.partial_batches() if each[0] not in self._batches.excess]
            record = record_of(mark, deleted, partial, self._whole_attachment())
            record.checkpoint = True
            if self._fallbacks:
                record.fallbacks = self._fallbacks
            data = encode_record(record, self.properties)
            self._checkpoint_bytes, self._delta_bytes, self._deltas = len(data), 0, 0
            self.checkpoint_bytes_written += len(data)
        else:
            remaining = [(position, self.state.remaining(position) or 0) for position in batches]
            record = record_of(mark, added, remaining, change.attached)
            data = encode_record(record, self.properties if change.properties else None)
            self._delta_bytes += len(data)
            self._deltas += 1
            self.delta_bytes_written += len(data)
        return data

    def _admit(self, change: Change) -> DeletedEntries:
        """Which deleted entries a delta is to hold: what is new or, around the limit, what fits."""
        mark, deleted = self.state.mark_delete_position, self.state.individually_deleted
        ranges_max = self._home.limits.unacked_ranges_max
        exceeding = deleted.runs > ranges_max and not self._persists_all
        persisted = self._persisted
        if persisted is None and not exceeding:
            return entries_beyond(mark, change.deleted)
        if persisted is None or change.replaced:
            before = DeletedEntries() if change.replaced else deleted.minus(entries_beyond(mark, change.deleted))
            persisted = PersistedEntries(before, ranges_max)
        persisted.entries.discard_through(mark)
        everything = self._persists_all
        added = deleted.minus(persisted.entries) if everything else persisted.admit(deleted, change.deleted)
        self._persisted = persisted if exceeding else None
        excess = deleted.entries - persisted.entries.entries if exceeding else 0
        if excess > 0 and not self.unpersisted_entries:
            log.warning("acknowledgements_unpersisted", cursor=self._home.path, entries=excess, ranges_max=ranges_max)
        self.unpersisted_entries = excess
        return added

    def _whole_attachment(self) -> list[bytes]:
        if self._owner is None:
            return self.attachments
        whole = self._owner()
        return [whole] if whole is not None else []

    def _failed(self, change: Change, error: StorageError) -> None:
        """A record was not written: take back what it and the later ones held, and let the metadata store have it."""
        if change not in self._unconfirmed:
            return  # it went with one before
        lost = Change()
        for each in (*self._unconfirmed, self._change):
            lost.merge(each)
        lost.deleted = list(entries_beyond(self.state.mark_delete_position, lost.deleted))
        self._unconfirmed, self._change, self._checkpoint_due = [], lost, True
        self._failure = error if self._fall_back(lost) else None

    def _fall_back(self, lost: Change) -> int:
        """Write to the metadata store what the ledger lacks; how much of it is not there, 0 when all is.

        The record holds the whole state where a power loss could take the records that the lost changes follow:
        recovery would add them to a state from before a reset, or to one without the acknowledgements in between.
        """
        limit = self._home.limits.metadata_ranges_max
        if not self._home.store.syncs:
            lost = replace(lost, replaced=True)
        whole = self._whole_attachment() if lost.replaced else []
        record, left_out = fallback_record(self.state, lost, self.properties, whole, limit)
        if self._fallback is None:
            log.warning("cursor_falls_back_to_metadata", cursor=self._home.path, left_out=left_out)
        self._fallbacks += 1
        self._fallback = Fallback(self._fallbacks, record)
        try:
            if self._is_kept:
                self._save()
        except StorageError as error:
            log.warning("cursor_fallback_failed", cursor=self._home.path, error=str(error))
            return left_out + 1
        return left_out

    def _forget_fallback(self, fallbacks: int) -> None:
        """A checkpoint is durable that holds the first ``fallbacks`` of them.

        A closed cursor leaves them: its successor may have others, and ignores these.
        """
        if self._fallback is not None and self._fallback.number <= fallbacks and not self._closed:
            self._fallback = None
            if self._home.path is not None and self._is_kept:
                # If it stays, that is no harm: it does not apply any more.
                self._home.metadata.commit([Put(self._home.path, self._content())])

    # --- where it is kept ------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Store where the cursor is kept; durable on return."""
        if self._home.path is not None:
            self._home.metadata.put(self._home.path, self._content())

    def _content(self) -> bytes:
        """What is stored at the cursor's path."""
        value: dict[str, Any] = {
            "cursorsLedgerId": self.ledger_id,
            "markDeletePosition": str(self._began),
            "cursorProperties": self.subscription_properties,
        }
        if self._fallback is not None:
            value["fallback"] = self._fallback.to_json()
        return json.dumps(value).encode()

    @property
    def _is_kept(self) -> bool:
        """Whether the cursor is still there: a write may be reported after it was deleted, or even made anew."""
        stored = self._home.metadata.get(self._home.path) if self._home.path is not None else None
        value = json.loads(stored.value) if stored is not None else {}
        return value.get("cursorsLedgerId") == self.ledger_id and not value.get("deleted")

    def begin(self, subscription_properties: Mapping[str, str]) -> None:
        """Make room to write; the cursor is durable with its first flush, which waits for the cursor's record.

        If the record cannot be stored, no ledger is left behind, and each flush gets the error. Raises StorageError
        where that is known at once.
        """
        self.subscription_properties = dict(subscription_properties)
        path = self._home.path
        if path is None:
            return
        ledger_id = self.ledger_id = self._home.store.create()
        self._is_recorded = False
        refusal: StorageError | None = None

        def recorded(error: StorageError | None) -> None:
            nonlocal refusal
            refusal, self._is_recorded = error, True
            waiting, self._waiting = self._waiting, []
            if error is not None:
                self._closed, self.ledger_id = True, None
                self._home.store.delete(ledger_id)
                self._home.failed(error)
                for done in waiting:
                    done(error)
            elif waiting:
                self.flush(partial(_tell_all, waiting))

        self._home.metadata.commit([Put(path, self._content())], recorded)
        if refusal is not None:
            raise refusal

    @classmethod
    def recover(cls, home: CursorHome, name: str, space: PositionSpace, value: Mapping[str, Any]) -> Cursor:
        """A cursor as its last durable record left it, without a ledger when there is no record in it.

        ``value`` is what ``begin`` and later writes left at its path. Raises CorruptionError when a record cannot be
        read.
        """
        began, ledger_id = Position.parse(value["markDeletePosition"]), value["cursorsLedgerId"]
        recovered = Recovered(began)
        if _exists(home.store, ledger_id):
            for run in home.store.runs(ledger_id):
                recovered.apply(run.annotation)
        in_ledger = recovered.found
        fallback = Fallback.from_json(value["fallback"]) if "fallback" in value else None
        lacking = Change()  # in the ledger, until the next checkpoint
        if fallback is not None and fallback.number > recovered.fallbacks:
            recovered.apply(fallback.record)
            lacking = Change.in_record(fallback.record)
        cursor = cls(home, name, recovered.state(space))
        cursor.recovered_through = recovered.acknowledged_through
        cursor._began = began
        cursor.ledger_id = ledger_id if in_ledger else None
        cursor.properties, cursor.attachments = recovered.properties, recovered.attachments
        cursor.subscription_properties = value["cursorProperties"]
        cursor._checkpoint_bytes, cursor._delta_bytes = recovered.checkpoint_bytes, recovered.delta_bytes
        cursor._deltas, cursor._change = recovered.deltas, lacking
        cursor._fallback = fallback
        cursor._fallbacks = max(recovered.fallbacks, fallback.number if fallback is not None else 0)
        cursor._checkpoint_due = not in_ledger or fallback is not None
        return cursor


def _with_the_last(error: StorageError | None) -> None:
    """Of a piece that is not the last: what became of the record is said there, in the order of all writes."""


def _tell_all(waiting: Sequence[OnDurable], error: StorageError | None) -> None:
    for done in waiting:
        done(error)


def _exists(store: LedgerStore, ledger_id: int) -> bool:
    try:
        store.length(ledger_id)  # touches no disk, so the only error is that there is no such ledger
    except StorageError:
        return False
    return True
