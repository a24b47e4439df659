"""The records of a cursor's ledger: encoding, and recovery from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from magnetar.base.errors import CorruptionError
from magnetar.base.position import Position
from magnetar.cursor.cursor_pb2 import CursorRecord
from magnetar.cursor.ranges import DeletedEntries, deserialize
from magnetar.wire.ack_set import int_to_words, words_to_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import CursorState


def record_of(
    state: CursorState,
    deleted: Iterable[Range],
    partial: Iterable[tuple[Position, int]],
    attachments: Iterable[bytes],
) -> CursorRecord:
    """A record with the state's mark-delete and the given entries, those that mark-delete implies left out."""
    mark = state.mark_delete_position
    record = CursorRecord(mark_delete_ledger_id=mark.ledger_id, mark_delete_entry_id=mark.entry_id)
    entries = DeletedEntries()
    for stretch in deleted:
        if stretch.last > mark:
            entries.add_range(stretch)
    for ledger_id, bitmap in entries.serialize():
        record.deleted.add(ledger_id=ledger_id, bitmap=bitmap)
    for (ledger_id, entry_id), remaining in partial:
        record.partial.add(ledger_id=ledger_id, entry_id=entry_id, remaining=int_to_words(remaining))
    record.attachments.extend(attachments)
    return record


def encode_record(record: CursorRecord, properties: Mapping[str, int] | None) -> bytes:
    """The bytes of a record; ``properties`` are all there are, or None when none of them changed."""
    if properties is not None:
        record.properties_changed = True
        for name, value in properties.items():
            record.properties.add(name=name, value=value)
    return record.SerializeToString()


class Recovered:
    """A cursor's state while its records are replayed."""

    def __init__(self, state: CursorState) -> None:
        """Begin where the cursor began."""
        self.state = state
        self.properties: dict[str, int] = {}
        self.attachments: list[bytes] = []
        self.found = False
        self.checkpoint_bytes = 0
        self.delta_bytes = 0

    def apply(self, data: bytes) -> None:
        """Replay the next record; raises CorruptionError when it cannot be read."""
        try:
            record = CursorRecord.FromString(data)
            deleted = deserialize((ledger.ledger_id, ledger.bitmap) for ledger in record.deleted)
        except (DecodeError, ValueError) as error:
            message = f"record of a cursor cannot be read: {error}"
            raise CorruptionError(message) from error
        mark = Position(record.mark_delete_ledger_id, record.mark_delete_entry_id)
        partial = [
            (Position(batch.ledger_id, batch.entry_id), words_to_int(batch.remaining)) for batch in record.partial
        ]
        if record.checkpoint:
            self.state.reset(mark, deleted, partial)
            self.attachments.clear()
            self.checkpoint_bytes, self.delta_bytes = len(data), 0
        else:
            self.state.advance_mark_delete(mark)
            self.state.acknowledge_ranges(deleted)
            for position, remaining in partial:
                self.state.acknowledge_batch(position, remaining)
            self.delta_bytes += len(data)
        if record.properties_changed:
            self.properties = {entry.name: entry.value for entry in record.properties}
        self.attachments.extend(record.attachments)
        self.found = True
