"""The records of a cursor's ledger: encoding, and recovery from them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from pyroaring import BitMap

from magnetar.base.errors import CorruptionError
from magnetar.base.position import Position
from magnetar.cursor.cursor_pb2 import CursorRecord, Piece
from magnetar.cursor.ranges import ENTRY_ID_MAX, DeletedEntries, deserialize
from magnetar.cursor.state import CursorState
from magnetar.wire.entries.ack_set import int_to_words, words_to_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import PositionSpace

PIECE_HEADER_BYTES = 32
"""What a piece needs beside its content, at most."""


def entries_beyond(mark_delete: Position, ranges: Iterable[Range]) -> DeletedEntries:
    """The entries of ``ranges``, those that mark-delete implies left out."""
    return DeletedEntries.of_ranges([stretch for stretch in ranges if stretch.last > mark_delete])


def record_of(
    mark_delete: Position,
    deleted: DeletedEntries,
    partial: Iterable[tuple[Position, int]],
    attachments: Iterable[bytes],
) -> CursorRecord:
    """A record of these acknowledgements."""
    record = CursorRecord(mark_delete_ledger_id=mark_delete.ledger_id, mark_delete_entry_id=mark_delete.entry_id)
    listed, mapped = deleted.serialize()
    ledger_ids = [position.ledger_id for position in listed]
    record.listed_ledger_steps.extend(
        after - before for before, after in zip([0, *ledger_ids], ledger_ids, strict=False)
    )
    record.listed_entry_ids.extend(position.entry_id for position in listed)
    for ledger_id, bitmap in mapped:
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


@dataclass(slots=True, eq=False)
class Change:
    """What happened to a cursor since some record of it."""

    deleted: list[Range] = field(default_factory=list)
    partial: dict[Position, None] = field(default_factory=dict)
    """Batches of which more was acknowledged, in order."""
    attached: list[bytes] = field(default_factory=list)
    properties: bool = False
    replaced: bool = False
    """Whether the state was replaced, so that nothing from before counts; the rest came after that."""

    def merge(self, later: Change) -> None:
        """Add what happened after this."""
        if later.replaced:
            self.deleted, self.partial, self.replaced = [], {}, True
        self.deleted += later.deleted
        self.partial.update(later.partial)
        self.attached += later.attached
        self.properties |= later.properties

    @classmethod
    def in_record(cls, data: bytes) -> Change:
        """The change that a record is of, pieces excepted; raises CorruptionError when it cannot be read."""
        record = _decode(data)
        entries = DeletedEntries(_bitmaps_in(record))
        for ledger_id, entry_id in _listed_in(record):
            entries.add(Position(ledger_id, entry_id))
        partial = dict.fromkeys(position for position, _ in _partial_in(record))
        return cls(list(entries), partial, list(record.attachments), record.properties_changed, record.checkpoint)


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
        self.acknowledged_through: Position | None = None
        """The newest entry that was acknowledged on its own, be there such an entry or not; set with the state."""
        self._mark_delete = began
        self._deleted: dict[int, BitMap] = {}
        self._listed: defaultdict[int, list[int]] = defaultdict(list)
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
        for ledger_id, entry_ids in self._listed.items():
            self._deleted.setdefault(ledger_id, BitMap()).update(entry_ids)
        # Entries that came acknowledged may have failed to be written, after that was noted here: none may stay in a
        # ledger's place behind its end, where mark-delete would never get past it.
        named = sorted({*self._deleted, *(position.ledger_id for position, _ in self._partial)})
        lengths = {ledger_id: _length_of(space, ledger_id) for ledger_id in named}
        newest = (Position(ledger_id, bitmap.max()) for ledger_id, bitmap in self._deleted.items() if bitmap)
        self.acknowledged_through = max(newest, default=None)
        for ledger_id, bitmap in self._deleted.items():
            bitmap.remove_range(lengths[ledger_id], ENTRY_ID_MAX + 1)
        partial = [each for each in self._partial if each[0].entry_id < lengths[each[0].ledger_id]]
        state = CursorState(space, self._mark_delete)
        state.restore(self._mark_delete, DeletedEntries(self._deleted), partial)
        return state

    def _replay(self, record: CursorRecord, size: int) -> None:
        deleted = _bitmaps_in(record)
        mark = Position(record.mark_delete_ledger_id, record.mark_delete_entry_id)
        partial = _partial_in(record)
        if record.checkpoint:
            self._mark_delete, self._deleted, self._partial = mark, deleted, partial
            self._listed.clear()
            self.attachments.clear()
            self.checkpoint_bytes, self.delta_bytes, self.deltas = size, 0, 0
            self.fallbacks = record.fallbacks
        else:
            self._mark_delete = max(self._mark_delete, mark)
            for ledger_id, bitmap in deleted.items():
                if (known := self._deleted.setdefault(ledger_id, bitmap)) is not bitmap:
                    known.update(bitmap)
            self._partial += partial
            self.delta_bytes += size
            self.deltas += 1
        for ledger_id, entry_id in _listed_in(record):
            self._listed[ledger_id].append(entry_id)
        if record.properties_changed:
            self.properties = {entry.name: entry.value for entry in record.properties}
        self.attachments.extend(record.attachments)
        self.found = True


def _bitmaps_in(record: CursorRecord) -> dict[int, BitMap]:
    """The entries that are not listed one by one."""
    try:
        return deserialize((each.ledger_id, each.bitmap) for each in record.deleted)
    except ValueError as error:
        message = f"record of a cursor cannot be read: {error}"
        raise CorruptionError(message) from error


def _listed_in(record: CursorRecord) -> Iterator[tuple[int, int]]:
    """The ledger and entry ids of those that are."""
    return zip(accumulate(record.listed_ledger_steps), record.listed_entry_ids, strict=True)


def _partial_in(record: CursorRecord) -> list[tuple[Position, int]]:
    return [(Position(batch.ledger_id, batch.entry_id), words_to_int(batch.remaining)) for batch in record.partial]


def _decode(data: bytes) -> CursorRecord:
    try:
        return CursorRecord.FromString(data)
    except DecodeError as error:
        message = f"record of a cursor cannot be read: {error}"
        raise CorruptionError(message) from error


def _length_of(space: PositionSpace, ledger_id: int) -> int:
    """How many entries a ledger has; 0 for one that is not there."""
    last = space.previous_position(Position(ledger_id + 1, 0))
    return last.entry_id + 1 if last.ledger_id == ledger_id else 0
