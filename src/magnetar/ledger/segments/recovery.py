"""Finding the log again: footers of the sealed segments, and a walk through the unsealed one.

Cut is only the tail that a crash tore: bytes at the end of the newest segment that no later record proves to have been
synced. A run of the newest segment that is damaged in the content of its entries only stays as it is, and readers meet
the damage as they do in a sealed segment. Everything else that is not as it was written raises CorruptionError.

What was read of the newest segment need not be durable: the medium is told what counts of it, and makes that durable
before anything depends on it. All older bytes are proven: the next segment is created only after the FOOTER is durable,
and the FOOTER is written only after everything before it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.ledger.segments.index import Extent, LedgerIndex, LogIndex
from magnetar.ledger.segments.record import HEADER_SIZE, Footer, Kind, body_of, decode_run_head, encode_header
from magnetar.ledger.segments.segment import (
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    corruption,
    decode_segment_header,
    read_footer,
    read_whole,
    refuse_synced_damage,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.ledger.medium.interface import GroupListener, OpenSegment, SegmentMedium, SegmentReader
    from magnetar.ledger.segments.record import ExtentLine, Record

    Progress = Callable[[int, int], None]
    """Told how much of how much is done."""


_WAY_OUT = "restore the data directory from a copy, or start an empty broker and let replication fill it"


@dataclass(frozen=True, slots=True)
class Tail:
    """The unsealed segment; ``size - end`` bytes of it are torn."""

    sequence: int
    size: int
    kept: bytes
    """Everything in front of the torn part, byte by byte as it was read; a damaged entry keeps its failing checksum."""

    @property
    def end(self) -> int:
        """Offset behind the last record that is not torn."""
        return len(self.kept)


@dataclass(frozen=True, slots=True)
class Survey:
    """The log as it is on the disk."""

    index: LogIndex
    tail: Tail | None
    """None when all segments are sealed."""
    unborn: int | None
    """A segment whose creation was interrupted; nothing in it was ever reported."""
    last_sequence: int
    """The newest segment, 0 if there is none; an unborn one does not count."""
    previous: int
    """crc of the last record in it."""
    footer: Record | None
    """FOOTER of the newest segment; None when that is unsealed, or there is none."""


async def survey(medium: SegmentMedium, progress: Progress = lambda _done, _total: None) -> Survey:
    """Read the state of the log that ``medium`` keeps and change nothing; ``progress`` counts segments.

    Raises CorruptionError, naming segment, offset and what an operator can do, for damage that no crash explains and
    that concerns more than the content of entries; StorageError if the log is unreadable.
    """
    try:
        return await _Surveyor(medium).run(progress)
    except CorruptionError as error:
        message = f"{error}. The log cannot be repaired: {_WAY_OUT}"
        raise CorruptionError(message) from error


async def recover(
    medium: SegmentMedium, listener: GroupListener, progress: Progress = lambda _done, _total: None
) -> tuple[Survey, OpenSegment | None]:
    """Take over the log that ``medium`` keeps, and cut its torn tail; the unsealed segment, if there is one, goes on.

    Everything that was found is durable on return. Raises as ``survey`` does, and StorageShortageError.
    """
    await medium.open()
    found = await survey(medium, progress)
    if found.unborn is not None:
        await medium.remove(found.unborn)  # and its creation proves the FOOTER before it
    elif found.footer is not None:
        place, body = found.footer.place, body_of(found.footer.body)
        header, _ = encode_header(Kind.FOOTER, body, place)
        await medium.confirm_seal(found.last_sequence, place.offset, b"".join((header, *body.parts)))
    if found.tail is None:
        return found, None
    return found, await medium.resume(found.tail.sequence, found.tail.kept, listener)


class _Surveyor:
    """One pass over the segments, oldest first."""

    def __init__(self, medium: SegmentMedium) -> None:
        self._medium = medium
        self._index = LogIndex()
        self._extents: dict[int, tuple[ExtentLine, ...]] = {}
        """Of the sealed segments."""
        self._newest_footer: Record | None = None
        self._tail: Tail | None = None
        self._unborn: int | None = None
        self._last_sequence = 0
        self._previous = 0

    async def run(self, progress: Progress) -> Survey:
        sequences = await self._medium.segments()
        for done, sequence in enumerate(sequences):
            progress(done, len(sequences))
            reader = await self._medium.read(sequence)
            try:
                await self._visit(reader, sequence, newest=sequence == sequences[-1])
            finally:
                reader.close()
        if self._tail is None:
            self._adopt_sealed()
        for ledger in self._index.ledgers.values():
            self._refuse_gap(ledger)
        footer = self._newest_footer if self._tail is None else None
        return Survey(self._index, self._tail, self._unborn, self._last_sequence, self._previous, footer)

    async def _visit(self, reader: SegmentReader, sequence: int, *, newest: bool) -> None:
        name = self._medium.name_of(sequence)
        found = await read_footer(reader, sequence)
        if found is None and not newest:
            raise corruption(name, await reader.size(), "no intact footer, though a newer segment follows")
        (head,) = await reader.read([(0, SEGMENT_HEADER_SIZE)])
        header = decode_segment_header(head, sequence)
        if header is None:
            if found is not None:
                raise corruption(name, 0, "broken segment header")
            refuse_synced_damage(await read_whole(reader), sequence, 0, name)
            self._unborn = sequence
            return
        if self._last_sequence == sequence - 1 and self._previous != header.previous:
            raise corruption(name, 0, f"does not continue segment {sequence - 1}")
        self._last_sequence = sequence
        if found is not None:
            self._extents[sequence] = Footer.decode_extents(found.body)
            self._newest_footer = found
            self._previous = found.crc
        else:
            self._adopt_sealed()
            self._replay(name, await read_whole(reader), header)

    def _adopt_sealed(self) -> None:
        """Take the state from the newest footer, and the places of what it calls alive from all of them."""
        index = self._index
        if self._newest_footer is None:
            return
        index.newest_sealed = max(self._extents)
        newest = Footer.decode(self._newest_footer.body)
        index.next_ledger_id = newest.next_ledger_id
        for ledger_id, trimmed_before, length, sealed in newest.ledgers:
            index.ledgers[ledger_id] = LedgerIndex(ledger_id, trimmed_before, length, sealed)
        for sequence, lines in self._extents.items():
            extents = index.segments[sequence] = {}
            for ledger_id, first, end, entries_bytes, index_offset, index_size in lines:
                ledger = index.ledgers.get(ledger_id)
                if ledger is not None and end > ledger.trimmed_before:
                    extents[ledger_id] = Extent(sequence, first, end, entries_bytes, index_offset, index_size)
                    ledger.extents.append(extents[ledger_id])

    def _replay(self, name: str, data: bytes, header: SegmentHeader) -> None:
        """Apply the records of the unsealed segment up to a torn tail; an INDEX says nothing without the FOOTER."""
        index, sequence = self._index, header.sequence
        index.segments[sequence] = {}
        end, self._previous = SEGMENT_HEADER_SIZE, header.crc
        for record in walk(data, header, name):
            if record.kind is Kind.RUN:
                try:
                    head = decode_run_head(record.body)
                    index.apply_run(sequence, head, record.place.offset, HEADER_SIZE + len(record.body))
                except StorageError as error:
                    raise corruption(name, record.place.offset, str(error)) from error
            elif record.kind is Kind.FOOTER:
                raise corruption(name, record.end, "bytes behind the footer")
            elif record.kind is not Kind.INDEX:
                index.apply_control(record.kind, record.body)
            end, self._previous = record.end, record.crc
        self._tail = Tail(sequence, len(data), data if end == len(data) else data[:end])

    def _refuse_gap(self, ledger: LedgerIndex) -> None:
        gap = ledger.find_gap()
        if gap is not None:
            first, end = gap
            held = [extent.segment for extent in ledger.extents]
            what = f"ledger {ledger.ledger_id} misses entries {first} to {end - 1}; it has entries in segments {held}"
            raise corruption(self._medium.name_of(held[0] if held else self._last_sequence), 0, what)
