"""Finding the log again: footers of the sealed segments, and a walk through the unsealed one.

Cut is only the tail that a crash tore: bytes at the end of the newest segment that no later record proves to have been
synced. A run of the newest segment that is damaged in the content of its entries only stays as it is, and readers meet
the damage as they do in a sealed segment. Everything else that is not as it was written raises CorruptionError.

Recovery does not trust the page cache. After a failed fsync Linux marks the pages clean: they are readable, they are
not on the disk, and the next fsync succeeds without them (ADR 12). Whatever was read from the newest segment is
therefore written again before anything depends on it: the records of an unsealed segment go to a new file that replaces
it, and the FOOTER of a sealed one is cut off and appended again. All older bytes are proven: the next segment is
created only after a successful fsync of the FOOTER, and the FOOTER is written only after one of everything before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.durable import COPY_SUFFIX, storage_error, write_again
from magnetar.base.errors import CorruptionError, StorageError
from magnetar.ledger.segments.index import Extent, LedgerIndex, LogIndex
from magnetar.ledger.segments.record import HEADER_SIZE, Footer, Kind, body_of, decode_run_head, encode_header
from magnetar.ledger.segments.segment import (
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    SegmentWriter,
    corruption,
    decode_segment_header,
    read_footer,
    refuse_synced_damage,
    segment_path,
    segment_sequences,
    set_room_aside,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from magnetar.base.world import File, Files
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


def survey(files: Files, directory: Path, progress: Progress = lambda _done, _total: None) -> Survey:
    """Read the state of the log in ``directory`` and change nothing; ``progress`` counts segments.

    Raises CorruptionError, naming file, offset and what an operator can do, for damage that no crash explains and that
    concerns more than the content of entries; StorageError if the log is unreadable.
    """
    try:
        return _Surveyor(files, directory).run(progress)
    except CorruptionError as error:
        message = f"{error}. The log cannot be repaired: {_WAY_OUT}"
        raise CorruptionError(message) from error
    except OSError as error:
        message = f"{directory}: cannot read the log: {error}"
        raise StorageError(message) from error


def recover(
    files: Files, directory: Path, progress: Progress = lambda _done, _total: None, *, room: int = 0
) -> tuple[Survey, SegmentWriter | None]:
    """Read the log in ``directory``, which is made if missing, and cut its torn tail; the unsealed segment goes on.

    Everything that was found is on the disk on return. The unsealed segment needs free space for a copy while it is
    written again, and has ``room`` bytes set aside afterwards. Raises as ``survey`` does, and DiskFullError.
    """
    try:
        files.make_directory(directory)
        files.sync_directory(directory.parent)  # a segment is as durable as the name of its directory
        for name in files.list(directory):
            if name.endswith(COPY_SUFFIX):
                files.remove(directory / name)
        found = survey(files, directory, progress)
        if found.unborn is not None:
            files.remove(segment_path(directory, found.unborn))  # and its creation proves the FOOTER before it
        elif found.footer is not None:
            _write_footer_again(files, segment_path(directory, found.last_sequence), found.footer)
        writer = None if found.tail is None else _write_tail_again(files, directory, found.tail, found.previous, room)
        files.sync_directory(directory)
    except OSError as error:
        raise storage_error(directory, error) from error
    return found, writer


def _write_tail_again(files: Files, directory: Path, tail: Tail, previous: int, room: int) -> SegmentWriter:
    """Replace the unsealed segment by a synced copy of what it has in front of the torn part.

    The copy is made of the bytes that were checked: pages that are clean and not on the disk may be evicted any time.
    """
    path = segment_path(directory, tail.sequence)
    write_again(files, path, tail.kept)
    file = files.open(path)
    if room:
        set_room_aside(files, directory, file, room)
    return SegmentWriter(path, file, tail.sequence, previous)


def _write_footer_again(files: Files, path: Path, footer: Record) -> None:
    """Append the FOOTER anew; a crash in between leaves an unsealed segment, which says the same."""
    body = body_of(footer.body)
    header, _ = encode_header(footer.kind, body, footer.place)
    file = files.open(path)
    try:
        file.truncate(footer.place.offset)
        file.write([header, *body.parts])
        file.sync()
    finally:
        file.close()


class _Surveyor:
    """One pass over the segments, oldest first."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._index = LogIndex()
        self._extents: dict[int, tuple[ExtentLine, ...]] = {}
        """Of the sealed segments."""
        self._newest_footer: Record | None = None
        self._tail: Tail | None = None
        self._unborn: int | None = None
        self._last_sequence = 0
        self._previous = 0

    def run(self, progress: Progress) -> Survey:
        sequences = segment_sequences(self._files.list(self._directory))
        for done, sequence in enumerate(sequences):
            progress(done, len(sequences))
            path = segment_path(self._directory, sequence)
            file = self._files.open(path)
            try:
                self._visit(path, file, sequence, newest=sequence == sequences[-1])
            finally:
                file.close()
        if self._tail is None:
            self._adopt_sealed()
        for ledger in self._index.ledgers.values():
            self._refuse_gap(ledger)
        footer = self._newest_footer if self._tail is None else None
        return Survey(self._index, self._tail, self._unborn, self._last_sequence, self._previous, footer)

    def _visit(self, path: Path, file: File, sequence: int, *, newest: bool) -> None:
        found = read_footer(file, sequence)
        if found is None and not newest:
            raise corruption(path, file.size(), "no intact footer, though a newer segment follows")
        header = decode_segment_header(file.read_at(0, SEGMENT_HEADER_SIZE), sequence)
        if header is None:
            if found is not None:
                raise corruption(path, 0, "broken segment header")
            refuse_synced_damage(file.read_at(0, file.size()), sequence, 0, path)
            self._unborn = sequence
            return
        if self._last_sequence == sequence - 1 and self._previous != header.previous:
            raise corruption(path, 0, f"does not continue segment {sequence - 1}")
        self._last_sequence = sequence
        if found is not None:
            self._extents[sequence] = Footer.decode_extents(found.body)
            self._newest_footer = found
            self._previous = found.crc
        else:
            self._adopt_sealed()
            self._replay(path, file.read_at(0, file.size()), header)

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

    def _replay(self, path: Path, data: bytes, header: SegmentHeader) -> None:
        """Apply the records of the unsealed segment up to a torn tail; an INDEX says nothing without the FOOTER."""
        index, sequence = self._index, header.sequence
        index.segments[sequence] = {}
        end, self._previous = SEGMENT_HEADER_SIZE, header.crc
        for record in walk(data, header, path):
            if record.kind is Kind.RUN:
                try:
                    head = decode_run_head(record.body)
                    index.apply_run(sequence, head, record.place.offset, HEADER_SIZE + len(record.body))
                except StorageError as error:
                    raise corruption(path, record.place.offset, str(error)) from error
            elif record.kind is Kind.FOOTER:
                raise corruption(path, record.end, "bytes behind the footer")
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
            raise corruption(self._directory, 0, what)
