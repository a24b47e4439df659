"""Finding the log again: footers of the sealed segments, and a walk through the unsealed one.

Cut is only the tail that a crash tore: bytes at the end of the newest segment that no later record proves to have been
synced. Everything else that is not as it was written raises CorruptionError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.ledger.index import Extent, LedgerIndex, LogIndex
from magnetar.ledger.record import HEADER_SIZE, Footer, Kind, decode_run_head
from magnetar.ledger.segment import (
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    SegmentWriter,
    corruption,
    decode_segment_header,
    read_footer,
    refuse_synced_damage,
    segment_path,
    segment_sequences,
    walk,
)

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import File, Files


@dataclass(frozen=True, slots=True)
class Recovered:
    """The log as it was found."""

    index: LogIndex
    writer: SegmentWriter | None
    """Where to go on writing; None to start a segment, with the next two."""
    next_sequence: int
    previous: int
    """crc of the last record."""


def recover(files: Files, directory: Path) -> Recovered:
    """Read the state of the log in ``directory``, which is made if missing, and cut a torn tail.

    Raises CorruptionError, naming file and offset, for damage that no crash explains.
    """
    try:
        files.make_directory(directory)
        return _Recovery(files, directory).run()
    except OSError as error:
        message = f"{directory}: cannot recover: {error}"
        raise StorageError(message) from error


class _Recovery:
    """One pass over the segments, oldest first."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._index = LogIndex()
        self._footers: dict[int, Footer] = {}
        self._last: tuple[int, int] | None = None
        """Sequence and last crc of the segment before."""

    def run(self) -> Recovered:
        sequences = segment_sequences(self._files.list(self._directory))
        writer = None
        for sequence in sequences:
            writer = self._visit(sequence, newest=sequence == sequences[-1])
        for ledger in self._index.ledgers.values():
            self._refuse_gap(ledger)
        next_sequence, previous = (self._last[0] + 1, self._last[1]) if self._last else (1, 0)
        return Recovered(self._index, writer, next_sequence, previous)

    def _visit(self, sequence: int, *, newest: bool) -> SegmentWriter | None:
        path = segment_path(self._directory, sequence)
        file = self._files.open(path)
        try:
            writer = self._examine(path, file, sequence, newest=newest)
        except BaseException:
            file.close()
            raise
        if writer is None:
            file.close()
        return writer

    def _examine(self, path: Path, file: File, sequence: int, *, newest: bool) -> SegmentWriter | None:
        found = read_footer(file, sequence)
        if found is None and not newest:
            raise corruption(path, file.size(), "no intact footer, though a newer segment follows")
        header = decode_segment_header(file.read_at(0, SEGMENT_HEADER_SIZE), sequence)
        if header is None:
            if found is None:
                self._remove_unborn(file, path, sequence)
                self._adopt_sealed()
                return None
            raise corruption(path, 0, "broken segment header")
        if self._last and self._last[0] == sequence - 1 and self._last[1] != header.previous:
            raise corruption(path, 0, f"does not continue segment {sequence - 1}")
        if found is not None:
            footer, record = found
            self._footers[sequence] = footer
            self._last = sequence, record.crc
            if newest:
                self._adopt_sealed()
            return None
        self._adopt_sealed()
        return self._resume(file, path, header)

    def _remove_unborn(self, file: File, path: Path, sequence: int) -> None:
        """Remove a segment whose creation the crash interrupted: nothing of it was ever reported."""
        refuse_synced_damage(file.read_at(0, file.size()), sequence, 0, path)
        self._files.remove(path)

    def _adopt_sealed(self) -> None:
        """Take the state from the newest footer, and the places of what it calls alive from all of them."""
        index = self._index
        if not self._footers:
            return
        index.newest_sealed = max(self._footers)
        newest = self._footers[index.newest_sealed]
        index.next_ledger_id = newest.next_ledger_id
        for ledger_id, trimmed_before, length, sealed in newest.ledgers:
            index.ledgers[ledger_id] = LedgerIndex(ledger_id, trimmed_before, length, sealed)
        for sequence, footer in self._footers.items():
            extents = index.segments[sequence] = {}
            for ledger_id, first, end, entries_bytes, index_offset, index_size in footer.extents:
                ledger = index.ledgers.get(ledger_id)
                if ledger is not None and end > ledger.trimmed_before:
                    extents[ledger_id] = Extent(sequence, first, end, entries_bytes, index_offset, index_size)
                    ledger.extents.append(extents[ledger_id])

    def _resume(self, file: File, path: Path, header: SegmentHeader) -> SegmentWriter:
        """Replay the unsealed segment and cut what the crash tore, or what a sealing left unfinished."""
        index, sequence = self._index, header.sequence
        index.segments[sequence] = {}
        data = file.read_at(0, file.size())
        end, previous = SEGMENT_HEADER_SIZE, header.crc
        unfinished_sealing = False
        for record in walk(data, header, path):
            if record.kind in (Kind.INDEX, Kind.FOOTER):
                unfinished_sealing = True
                continue
            if unfinished_sealing:
                raise corruption(path, record.place.offset, "record behind the index of the segment")
            try:
                if record.kind is Kind.RUN:
                    head = decode_run_head(record.body)
                    index.apply_run(sequence, head, record.place.offset, HEADER_SIZE + len(record.body))
                else:
                    index.apply_control(record.kind, record.body)
            except StorageError as error:
                raise corruption(path, record.place.offset, str(error)) from error
            end, previous = record.end, record.crc
        if end < len(data):
            file.truncate(end)
        file.sync()  # what only the page cache held may be reported from now on
        self._files.sync_directory(self._directory)
        self._last = sequence, previous
        return SegmentWriter(path, file, sequence, previous)

    def _refuse_gap(self, ledger: LedgerIndex) -> None:
        gap = ledger.find_gap()
        if gap is not None:
            first, end = gap
            held = [extent.segment for extent in ledger.extents]
            what = f"ledger {ledger.ledger_id} misses entries {first} to {end - 1}; it has entries in segments {held}"
            raise corruption(self._directory, 0, what)
