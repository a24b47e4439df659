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

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.base.errors import StorageError
from magnetar.base.parts import Part
from magnetar.cursor.checkpoints import RecordSizes
from magnetar.cursor.fallback_writes import Fallbacks
from magnetar.cursor.info import CursorInfo
from magnetar.cursor.persisted import PersistedState
from magnetar.cursor.records import Change, encode_record, entries_beyond, pieces_of, record_of
from magnetar.cursor.recovery import replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from magnetar.base.position import Position
    from magnetar.cursor.info import CursorHome
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import CursorState, PositionSpace
    from magnetar.ledger.store import OnDurable

log = structlog.get_logger(__name__)


class Cursor(Part):
    """One subscription's durable acknowledgement state. Read ``state``; change it only through the cursor."""

    def __init__(self, info: CursorInfo, name: str, state: CursorState) -> None:
        """A cursor at ``state``; made by ``CursorStore``."""
        self.name = name
        self.state = state
        self.properties: dict[str, int] = {}
        self.attachments: list[bytes] = []
        """What the owner attached, as recovered: a checkpoint's, then the deltas', oldest first."""
        self.recovered_through: Position | None = None
        """The newest entry that its records acknowledge on its own, even where the log has none."""
        self.sizes = RecordSizes()
        self.durable = info.home.path is not None
        """Whether it outlives the broker."""
        self._info, self._home = info, info.home
        self._fallbacks = Fallbacks(info)
        self._owner: Callable[[], bytes | None] | None = None
        self.before_record: Callable[[], None] = _nothing  # the owner attaches what belongs to acknowledgements so far
        self._change = Change()  # since the last flush
        self._unconfirmed: list[Change] = []  # of the records that are on their way, oldest first
        self._mark_written = state.mark_delete_position
        self._persisted = PersistedState(info.home.limits)
        self._checkpoint_due, self._closed = True, False
        self._waiting: list[OnDurable] = []
        """Told of the first flush, which follows the cursor's record in the metadata store, even of a closed cursor."""

    @property
    def info(self) -> CursorInfo:
        """Its value in the metadata store."""
        return self._info

    @property
    def is_being_recorded(self) -> bool:
        """Whether the cursor is new, and its record is on its way to the disk."""
        return not self._info.is_recorded

    @property
    def began(self) -> Position:
        """The mark-delete position that it was created with."""
        return self._info.began

    @property
    def ledger_id(self) -> int | None:
        """The ledger of its records."""
        return self._info.ledger_id

    @property
    def subscription_properties(self) -> dict[str, str]:
        """The properties of the subscription; empty after it was deleted."""
        return self._info.subscription_properties

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

    def set_subscription_properties(self, properties: Mapping[str, str], on_durable: OnDurable) -> None:
        """Replace the properties of the subscription; ``on_durable`` is called when that is durable."""
        self._info.set_properties(dict(properties), on_durable)

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
        self._owner, self.before_record = give, _nothing
        self.attachments = []

    def _note(self, newly: list[Range]) -> list[Range]:
        if self.durable:  # else no flush ever takes it
            self._change.deleted += newly
        return newly

    # --- durability ------------------------------------------------------------------------------------------------

    @property
    def persists_all(self) -> bool:
        """Whether the limits are not applied here, because the owner sees to it that they are kept."""
        return self._persisted.everything

    @persists_all.setter
    def persists_all(self, value: bool) -> None:
        if value and (self.unpersisted_entries or self.unpersisted_batches):
            self._checkpoint_due = True
        self._persisted.everything = value

    @property
    def unpersisted_entries(self) -> int:
        """Entries whose acknowledgement is beyond the limit as of the last flush: after a crash they come again."""
        return self._persisted.excess_entries

    @property
    def unpersisted_batches(self) -> int:
        """Batches acknowledged in part of which the latest is beyond the limit: after a crash more of them comes."""
        return self._persisted.excess_batches

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
        elif not self._info.is_recorded:
            self._waiting.append(on_durable)
        elif self.changed:
            self._write(on_durable, checkpoint=self._checkpoint_due or self.sizes.is_outgrown)
        else:
            self._home.store.barrier(
                lambda error: on_durable(None) if error is None else self._fallbacks.then(on_durable)
            )

    def checkpoint(self, on_durable: OnDurable) -> None:
        """Write everything anew, so that older records need no space any more."""
        self._checkpoint_due = True
        self.flush(on_durable)

    def close(self) -> None:
        """Refuse to write any more: whoever opens the cursor next goes on from the last flush, alone."""
        self._closed = True
        self._info.forget()

    def _write(self, on_durable: OnDurable, *, checkpoint: bool) -> None:
        store, ledger_id = self._home.store, self.ledger_id
        assert ledger_id is not None, self.name
        self.before_record()
        change, fallbacks = self._change, self._fallbacks.number
        data = self._record(checkpoint=checkpoint)
        self._unconfirmed.append(change)
        self._change, self._checkpoint_due = Change(), False
        self._mark_written = self.state.mark_delete_position

        def written(error: StorageError | None) -> None:
            if error is not None:
                self._failed(change, error)
                self._fallbacks.then(on_durable)
                return
            self._unconfirmed = [each for each in self._unconfirmed if each is not change]
            if checkpoint:
                self._fallbacks.contained(fallbacks)
                with suppress(StorageError):  # the cursor was deleted meanwhile
                    store.trim(ledger_id, first)
                if self._info.fallback is not None:
                    # Behind the trim: that is synced even where records are not, and the checkpoint with it.
                    store.barrier(lambda error: self._forget_fallbacks(fallbacks) if error is None else None)
            on_durable(None)

        *others, last = pieces_of(data, self._home.limits.record_bytes_max)
        firsts = [store.append(ledger_id, (b"",), _with_the_last, piece) for piece in others]
        first = [*firsts, store.append(ledger_id, (b"",), written, last)][0]

    def _record(self, *, checkpoint: bool) -> bytes:
        """What to write now, and note that it is written."""
        state, change, exceeded = self.state, self._change, self._persisted.excess_entries
        added, batches = self._persisted.admit(state, change)
        if self._persisted.excess_entries and not exceeded:
            log.warning(
                "acknowledgements_unpersisted",
                cursor=self._home.path,
                entries=self.unpersisted_entries,
                ranges_max=self._home.limits.unacked_ranges_max,
            )
        if checkpoint:
            deleted, partial = self._persisted.whole(state)
            record = record_of(state.mark_delete_position, deleted, partial, self._whole_attachment())
            record.checkpoint = True
            if self._fallbacks.number:
                record.fallbacks = self._fallbacks.number
            data = encode_record(record, self.properties)
            self.sizes.add_checkpoint(len(data))
        else:
            remaining = [(position, state.remaining(position) or 0) for position in batches]
            record = record_of(state.mark_delete_position, added, remaining, change.attached)
            data = encode_record(record, self.properties if change.properties else None)
            self.sizes.add_delta(len(data))
        return data

    def _whole_attachment(self) -> list[bytes]:
        if self._owner is None:
            return self.attachments
        whole = self._owner()
        return [whole] if whole is not None else []

    def _failed(self, change: Change, error: StorageError) -> None:
        """A record was not written: take back what it and the later ones held, and let the metadata store have it."""
        if change not in self._unconfirmed:
            return  # it went with one before
        self.before_record()
        lost = Change()
        for each in (*self._unconfirmed, self._change):
            lost.merge(each)
        lost.deleted = list(entries_beyond(self.state.mark_delete_position, lost.deleted))
        self._unconfirmed, self._change, self._checkpoint_due = [], lost, True
        self._fallbacks.write(self.state, lost, self.properties, self._whole_attachment, error)

    def _forget_fallbacks(self, number: int) -> None:
        """A checkpoint is durable that holds the first ``number`` of them.

        A closed cursor leaves them: its successor may have others, and ignores these.
        """
        if not self._closed:
            self._fallbacks.forget(number)

    # --- beginning and recovery ------------------------------------------------------------------------------------

    def begin(self, subscription_properties: Mapping[str, str]) -> None:
        """Make room to write; the cursor is durable with its first flush, which waits for the cursor's record.

        If the record cannot be stored, no ledger is left behind, and each flush gets the error. Raises StorageError
        where that is known at once.
        """
        self._info.begin(dict(subscription_properties), self._recorded)

    def _recorded(self, error: StorageError | None) -> None:
        waiting, self._waiting = self._waiting, []
        if error is not None:
            self._closed = True
            for done in waiting:
                done(error)
        elif waiting:
            self._write(partial(_tell_all, waiting), checkpoint=True)

    @classmethod
    def recover(cls, home: CursorHome, name: str, space: PositionSpace, value: Mapping[str, Any]) -> Cursor:
        """A cursor as its last durable record left it, without a ledger when there is no record in it.

        ``value`` is what ``begin`` and later writes left at its path. Raises CorruptionError when a record cannot be
        read.
        """
        info = CursorInfo.of(home, value)
        recovered, lacking = replay(info)
        cursor = cls(info, name, recovered.state(space))
        cursor.recovered_through = recovered.acknowledged_through
        cursor.properties, cursor.attachments = recovered.properties, recovered.attachments
        cursor.sizes = RecordSizes(recovered.checkpoint_bytes, recovered.delta_bytes, recovered.deltas)
        cursor._fallbacks, cursor._change = Fallbacks(info, recovered.fallbacks), lacking
        cursor._checkpoint_due = info.ledger_id is None or info.fallback is not None
        return cursor


def _nothing() -> None:
    """Attach nothing before a record."""


def _with_the_last(error: StorageError | None) -> None:
    """Of a piece that is not the last: what became of the record is said there, in the order of all writes."""


def _tell_all(waiting: Sequence[OnDurable], error: StorageError | None) -> None:
    for done in waiting:
        done(error)
