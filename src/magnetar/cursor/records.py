"""The records of a cursor's ledger: encoding, and recovery from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from magnetar.base.errors import CorruptionError
from magnetar.base.position import Position
from magnetar.cursor.cursor_pb2 import CursorRecord, Piece
from magnetar.cursor.ranges import DeletedEntries, deserialize
from magnetar.cursor.state import CursorState
from magnetar.wire.ack_set import int_to_words, words_to_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyroaring import BitMap

    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import PositionSpace

PIECE_HEADER_BYTES = 32
"""What a piece needs beside its content, at most."""


def entries_beyond(mark_delete: Position, ranges: Iterable[Range]) -> DeletedEntries:
    """The entries of ``ranges``, those that mark-delete implies left out."""
    entries = DeletedEntries()
    for stretch in ranges:
        if stretch.last > mark_delete:
            entries.add_range(stretch)
    return entries


def record_of(
    mark_delete: Position,
    deleted: DeletedEntries,
    partial: Iterable[tuple[Position, int]],
    attachments: Iterable[bytes],
) -> CursorRecord:
    """A record of these acknowledgements."""
    record = CursorRecord(mark_delete_ledger_id=mark_delete.ledger_id, mark_delete_entry_id=mark_delete.entry_id)
    for ledger_id, bitmap in deleted.serialize():
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


def pieces_of(data: bytes, record_bytes_max: int) -> list[bytes]:
    """A record as it is written: as it is or, when it is larger than ``record_bytes_max``, in pieces that are not."""
    if len(data) <= record_bytes_max:
        return [data]
    step = record_bytes_max - PIECE_HEADER_BYTES
    contents = [data[start : start + step] for start in range(0, len(data), step)]
    return [
        CursorRecord(piece=Piece(index=index, count=len(contents), content=content)).SerializeToString()
        for index, content in enumerate(contents)
    ]


class Recovered:
    """A cursor's state while its records are replayed.

    Deltas only ever add, so they are gathered, ledger by ledger, and made into a state once: what recovery costs does
    not depend on how many records hold the same acknowledgements.
    """

    def __init__(self, began: Position) -> None:
        """Begin where the cursor began."""
        self.properties: dict[str, int] = {}
        self.attachments: list[bytes] = []
        self.found = False
        self.checkpoint_bytes = 0
        self.delta_bytes = 0
        self.deltas = 0
        self.fallbacks = 0
        self._mark_delete = began
        self._deleted: dict[int, BitMap] = {}
        self._partial: list[tuple[Position, int]] = []
        self._pieces: list[bytes] = []

    def apply(self, data: bytes) -> None:
        """Replay what was written next; raises CorruptionError when it cannot be read."""
        record = _decode(data)
        if not record.HasField("piece"):
            self._pieces = []  # of a record that was never written to its end, and never confirmed
            self._replay(record, len(data))
            return
        piece = record.piece
        if piece.index == 0:
            self._pieces = []
        elif piece.index != len(self._pieces):
            message = f"record of a cursor cannot be read: piece {piece.index} follows {len(self._pieces)} pieces"
            raise CorruptionError(message)
        self._pieces.append(piece.content)
        if piece.index + 1 == piece.count:
            whole, self._pieces = b"".join(self._pieces), []
            self._replay(_decode(whole), len(whole))

    def state(self, space: PositionSpace) -> CursorState:
        """The state that all records lead to; only once, for it takes the entries over."""
        state = CursorState(space, self._mark_delete)
        state.restore(self._mark_delete, DeletedEntries(self._deleted), self._partial)
        return state

    def _replay(self, record: CursorRecord, size: int) -> None:
        try:
            deleted = deserialize((ledger.ledger_id, ledger.bitmap) for ledger in record.deleted)
        except ValueError as error:
            message = f"record of a cursor cannot be read: {error}"
            raise CorruptionError(message) from error
        mark = Position(record.mark_delete_ledger_id, record.mark_delete_entry_id)
        partial = [
            (Position(batch.ledger_id, batch.entry_id), words_to_int(batch.remaining)) for batch in record.partial
        ]
        if record.checkpoint:
            self._mark_delete, self._deleted, self._partial = mark, deleted, partial
            self.attachments.clear()
            self.checkpoint_bytes, self.delta_bytes, self.deltas = size, 0, 0
            self.fallbacks = record.fallbacks
        else:
            self._mark_delete = max(self._mark_delete, mark)
            for ledger_id, bitmap in deleted.items():
                known = self._deleted.setdefault(ledger_id, bitmap)
                if known is not bitmap:
                    known |= bitmap  # in place
            self._partial += partial
            self.delta_bytes += size
            self.deltas += 1
        if record.properties_changed:
            self.properties = {entry.name: entry.value for entry in record.properties}
        self.attachments.extend(record.attachments)
        self.found = True


def _decode(data: bytes) -> CursorRecord:
    try:
        return CursorRecord.FromString(data)
    except DecodeError as error:
        message = f"record of a cursor cannot be read: {error}"
        raise CorruptionError(message) from error
