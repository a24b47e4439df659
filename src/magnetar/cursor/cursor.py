"""A cursor: acknowledgement state that survives, written in proportion to what changes.

Records go to the cursor's own ledger in the store that its topic uses too, so they share its group commit. A record
is written as the annotation of a run with one empty entry: the store keeps annotations in its index, so opening a
topic recovers all its cursors without reading an entry. A flush writes a delta or, when the deltas have outgrown the
last checkpoint, a checkpoint; what lies before a durable checkpoint is trimmed.

The metadata store holds, at the cursor's path, which ledger that is, where the cursor began, and the subscription's
properties. A ledger that is not in the store was never written to, since the store refuses to open with one missing:
then the cursor is where it began, for nothing else was ever confirmed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.cursor.records import Recovered, encode_record, record_of
from magnetar.cursor.state import CursorState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from magnetar.base.position import Position
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import PositionSpace
    from magnetar.ledger.store import LedgerStore, OnDurable
    from magnetar.metadata.store import MetadataStore

CHECKPOINT_AFTER_BYTES = 64 * 1024
"""Bytes of deltas that are worth a checkpoint, however small it is."""

CHECKPOINT_AFTER_TIMES = 2
"""Times its own size that deltas may grow behind a checkpoint: bounds recovery, and what checkpoints cost over all."""


@dataclass(frozen=True, slots=True)
class CursorHome:
    """Where a cursor is kept; ``path`` is None for one that is not durable."""

    store: LedgerStore
    metadata: MetadataStore
    path: str | None


class Cursor:
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
        self._home = home
        self._began = state.mark_delete_position
        self._owner: Callable[[], bytes | None] | None = None
        self._deleted: list[Range] = []  # newly deleted since the last flush
        self._partial: dict[Position, None] = {}  # batches that changed since the last flush, in order
        self._attached: list[bytes] = []
        self._properties_changed = False
        self._mark_written = state.mark_delete_position
        self._checkpoint_due = True
        self._checkpoint_bytes = 0
        self._delta_bytes = 0

    @property
    def durable(self) -> bool:
        """Whether it outlives the broker."""
        return self._home.path is not None

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
        if self.state.remaining(position) != before:
            self._partial[position] = None
        return self._note(newly)

    def reset(
        self,
        mark_delete: Position,
        deleted: Iterable[Range] = (),
        partial: Iterable[tuple[Position, int]] = (),
    ) -> None:
        """See ``CursorState.reset``; written as a checkpoint, so that it is taken whole or not at all."""
        self.state.reset(mark_delete, deleted, partial)
        self._checkpoint_due = True

    def set_property(self, name: str, value: int | None) -> None:
        """Set a property that is kept with the acknowledgements, or remove it; durable with the next flush."""
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value
        self._properties_changed = True

    def set_subscription_properties(self, properties: Mapping[str, str]) -> None:
        """Replace the subscription's properties; durable on return."""
        self.subscription_properties = dict(properties)
        self._save()

    def attach(self, data: bytes) -> None:
        """Have the next flush write ``data`` of the owner with it; there must be an owner."""
        assert self._owner is not None, f"cursor {self.name} has no owner to attach for"
        self._attached.append(data)

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
        self._deleted += newly
        return newly

    # --- durability ------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether the next flush has something to write."""
        return bool(
            self._checkpoint_due
            or self._attached
            or self._properties_changed
            or self._deleted
            or self._partial
            or self.state.mark_delete_position != self._mark_written
        )

    def flush(self, on_durable: OnDurable) -> None:
        """Write what changed, as one record; ``on_durable`` is told when it and all before it are durable, or why not.

        After an error the next flush writes everything.
        """
        if not self.durable:
            on_durable(None)
        elif self.changed:
            outgrown = self._delta_bytes > max(CHECKPOINT_AFTER_BYTES, CHECKPOINT_AFTER_TIMES * self._checkpoint_bytes)
            self._write(on_durable, checkpoint=self._checkpoint_due or outgrown)
        else:
            self._home.store.barrier(on_durable)

    def checkpoint(self, on_durable: OnDurable) -> None:
        """Write everything anew, so that older records need no space any more."""
        self._checkpoint_due = True
        self.flush(on_durable)

    def _write(self, on_durable: OnDurable, *, checkpoint: bool) -> None:
        store, ledger_id = self._home.store, self.ledger_id
        assert ledger_id is not None, self.name
        data = self._checkpoint_record() if checkpoint else self._delta_record()

        def written(error: StorageError | None) -> None:
            if error is not None:
                self._checkpoint_due = True
            elif checkpoint:
                with suppress(StorageError):  # the cursor was deleted meanwhile
                    store.trim(ledger_id, entry_id)
            on_durable(error)

        entry_id = store.append(ledger_id, (b"",), written, data)
        if checkpoint:
            self._checkpoint_bytes, self._delta_bytes = len(data), 0
        else:
            self._delta_bytes += len(data)
        self._deleted, self._attached, self._partial = [], [], {}
        self._properties_changed, self._checkpoint_due = False, False
        self._mark_written = self.state.mark_delete_position

    def _checkpoint_record(self) -> bytes:
        if self._owner is None:
            attachments = self.attachments
        else:
            whole = self._owner()
            attachments = [whole] if whole is not None else []
        record = record_of(self.state, self.state.deleted(), self.state.partial_batches(), attachments)
        record.checkpoint = True
        return encode_record(record, self.properties)

    def _delta_record(self) -> bytes:
        partial = ((position, self.state.remaining(position)) for position in self._partial)
        changed = ((position, remaining) for position, remaining in partial if remaining is not None)
        record = record_of(self.state, self._deleted, changed, self._attached)
        return encode_record(record, self.properties if self._properties_changed else None)

    # --- where it is kept ------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Store where the cursor is kept; durable on return."""
        if self._home.path is None:
            return
        value = {
            "cursorsLedgerId": self.ledger_id,
            "markDeletePosition": str(self._began),
            "cursorProperties": self.subscription_properties,
        }
        self._home.metadata.put(self._home.path, json.dumps(value).encode())

    def begin(self, subscription_properties: Mapping[str, str]) -> None:
        """Make room to write; the cursor exists on return, and its state is durable with its first flush."""
        self.subscription_properties = dict(subscription_properties)
        if self.durable:
            self.ledger_id = self._home.store.create()
            self._save()

    @classmethod
    def recover(cls, home: CursorHome, name: str, space: PositionSpace, began: Position, ledger_id: int) -> Cursor:
        """A cursor as its last durable record left it, without a ledger when there is no record.

        Raises CorruptionError when a record cannot be read.
        """
        recovered = Recovered(CursorState(space, began))
        if _exists(home.store, ledger_id):
            for run in home.store.runs(ledger_id):
                recovered.apply(run.annotation)
        cursor = cls(home, name, recovered.state)
        cursor._began = began
        cursor.ledger_id = ledger_id if recovered.found else None
        cursor.properties, cursor.attachments = recovered.properties, recovered.attachments
        cursor._checkpoint_bytes, cursor._delta_bytes = recovered.checkpoint_bytes, recovered.delta_bytes
        cursor._checkpoint_due = not recovered.found
        return cursor


def _exists(store: LedgerStore, ledger_id: int) -> bool:
    try:
        store.length(ledger_id)  # touches no disk, so the only error is that there is no such ledger
    except StorageError:
        return False
    return True
