"""Doubting a whole log: every byte that counts is read, and all that is said twice must agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.base.real import SystemFiles
from magnetar.ledger.segments.record import (
    HEADER_SIZE,
    Footer,
    Kind,
    Record,
    RunHead,
    Table,
    decode_record,
    decode_run_entries,
    decode_run_head,
)
from magnetar.ledger.segments.recovery import survey
from magnetar.ledger.segments.salvage import damaged_ranges, salvage
from magnetar.ledger.segments.segment import (
    SEGMENT_HEADER_SIZE,
    corruption,
    decode_segment_header,
    read_footer,
    segment_path,
    segment_sequences,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from magnetar.base.world import File, Files
    from magnetar.ledger.segments.recovery import Progress

_SYSTEM = SystemFiles()


class Damage(NamedTuple):
    """Entries that cannot be read: ``first`` up to, not including, ``end``."""

    ledger_id: int
    first: int
    end: int


@dataclass(slots=True)
class Report:
    """What a log holds and what is wrong with it."""

    segments: int = 0
    ledgers: int = 0
    """Ledgers that exist; the rest counts what is in the files, needed or not."""
    runs: int = 0
    entries: int = 0
    entries_bytes: int = 0
    torn_bytes: int = 0
    """Bytes that a crash left at the end and that recovery will cut: no problem, nothing of it was reported."""
    problems: tuple[str, ...] = ()
    """Each names the file and the offset."""
    damaged: list[Damage] = field(default_factory=list)
    """The entries in broken records, where an index says which those are."""
    opens: bool = False
    """Whether a broker that starts can open the log; entries that are damaged do not keep it from that."""

    @property
    def intact(self) -> bool:
        """Whether everything is as it was written."""
        return not self.problems


def check(directory: Path, files: Files = _SYSTEM, progress: Progress = lambda _done, _total: None) -> Report:
    """Check the log in ``directory`` and change nothing; nobody may be writing it. ``progress`` counts segments."""
    report = Report()
    report.problems = tuple(_Check(files, directory, report).problems(progress))
    return report


class _Check:
    """One pass over all segments, oldest first."""

    def __init__(self, files: Files, directory: Path, report: Report) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._lengths: dict[int, int] = {}
        """Ledger id -> the entry that the next run must start with."""

    def problems(self, progress: Progress) -> Iterator[str]:
        """Yield what is wrong; what follows a broken record in its segment is only seen through the index.

        In the unsealed segment, records whose entries alone are damaged do not end the look.
        """
        try:
            found = survey(self._files, self._directory)
        except StorageError as error:
            yield str(error)
            unborn = None
        else:
            self._report.opens = True
            self._report.ledgers = len(found.index.ledgers)
            self._report.torn_bytes = found.tail.size - found.tail.end if found.tail else 0
            unborn = found.unborn
        sequences = segment_sequences(self._files.list(self._directory))
        for done, sequence in enumerate(sequences):
            progress(done, len(sequences))
            if sequence - 1 not in sequences:
                self._lengths.clear()  # what lay between was removed; the survey knows whether somebody needed it
            if sequence != unborn:
                self._report.segments += 1
                try:
                    yield from self._check_segment(sequence)
                except CorruptionError as error:
                    yield str(error)
                    yield from self._name_damaged(sequence)
        progress(len(sequences), len(sequences))

    def _name_damaged(self, sequence: int) -> Iterator[str]:
        """Yield which entries are gone with the broken records of a sealed segment."""
        path = segment_path(self._directory, sequence)
        file = self._files.open(path)
        try:
            found = read_footer(file, sequence)
            for line in Footer.decode_extents(found.body) if found is not None else ():
                index = decode_record(file.read_at(line.index_offset, line.index_size), 0, sequence, line.index_offset)
                if index is None:
                    yield f"{path}: offset {line.index_offset}: broken index of ledger {line.ledger_id}"
                else:
                    yield from self._name_damaged_of(file, path, sequence, index)
        finally:
            file.close()

    def _name_damaged_of(self, file: File, path: Path, sequence: int, index: Record) -> Iterator[str]:
        ledger_id, table = Table.decode(index.body)
        runs = zip(table.firsts, table.counts, table.offsets, table.sizes, table.annotations, strict=True)
        for first, count, offset, size, annotation in runs:
            data = file.read_at(offset, size)
            if decode_record(data, 0, sequence, offset) is None:
                head = RunHead(ledger_id, first, count, annotation, 0)
                yield from self._name_damaged_run(path, offset, head, data[HEADER_SIZE:])
        self._lengths[ledger_id] = table.firsts[-1] + table.counts[-1]

    def _name_damaged_run(self, path: Path, offset: int, head: RunHead, body: bytes) -> Iterator[str]:
        salvaged = salvage(body, head.entries, len(head.annotation))
        for start, end in damaged_ranges(salvaged, head.first_entry_id):
            self._report.damaged.append(Damage(head.ledger_id, start, end))
            yield f"{path}: offset {offset}: entries {start} to {end - 1} of ledger {head.ledger_id} are damaged"

    def _check_segment(self, sequence: int) -> Iterator[str]:
        """Yield the damaged entries of an unsealed segment; raises CorruptionError for other damage."""
        path = segment_path(self._directory, sequence)
        file = self._files.open(path)
        try:
            data = file.read_at(0, file.size())
            is_sealed = read_footer(file, sequence) is not None
        finally:
            file.close()
        header = decode_segment_header(data, sequence)
        if header is None:
            raise corruption(path, 0, "broken segment header")
        tables: dict[int, Table] = {}
        indexes: dict[int, tuple[int, Record]] = {}
        end = SEGMENT_HEADER_SIZE
        for record in walk(data, header, path):
            if not record.intact and is_sealed:
                raise corruption(path, record.place.offset, "broken record")
            end = record.end
            if record.kind is Kind.RUN:
                self._check_run(record, tables, path)
                if not record.intact:
                    yield from self._name_damaged_run(
                        path, record.place.offset, decode_run_head(record.body), record.body
                    )
            elif record.kind is Kind.INDEX:
                ledger_id, _ = Table.decode(record.body)
                indexes[record.place.offset] = ledger_id, record
            elif record.kind is Kind.FOOTER:
                _check_footer(record, tables, indexes, path)
                if record.end != len(data):
                    raise corruption(path, record.end, "bytes behind the footer")
        if end != len(data) and sequence != max(segment_sequences(self._files.list(self._directory))):
            raise corruption(path, end, "broken record in a sealed segment")

    def _check_run(self, record: Record, tables: dict[int, Table], path: Path) -> None:
        head = decode_run_head(record.body)
        expected = self._lengths.get(head.ledger_id, head.first_entry_id)
        if head.first_entry_id != expected:
            what = f"ledger {head.ledger_id} goes on with entry {head.first_entry_id}, expected {expected}"
            raise corruption(path, record.place.offset, what)
        if sum(map(len, decode_run_entries(record.body))) != head.entries_bytes:
            raise corruption(path, record.place.offset, "lengths of the entries do not add up")
        self._lengths[head.ledger_id] = head.first_entry_id + head.entries
        size = HEADER_SIZE + len(record.body)
        tables.setdefault(head.ledger_id, Table()).append(head, record.place.offset, size)
        self._report.runs += 1
        self._report.entries += head.entries
        self._report.entries_bytes += head.entries_bytes


def _check_footer(footer: Record, tables: dict[int, Table], indexes: dict[int, tuple[int, Record]], path: Path) -> None:
    """Raise CorruptionError unless the index says of the runs what they say themselves."""
    for line in Footer.decode(footer.body).extents:
        ledger_id, index = indexes.get(line.index_offset, (None, None))
        if index is None or ledger_id != line.ledger_id or HEADER_SIZE + len(index.body) != line.index_size:
            raise corruption(path, footer.place.offset, f"footer names no index of ledger {line.ledger_id}")
        _, table = Table.decode(index.body)
        walked = tables.get(line.ledger_id, Table()).suffix_from(table.firsts[0])
        if table != walked or (line.first, line.end) != (table.firsts[0], table.firsts[-1] + table.counts[-1]):
            raise corruption(path, index.place.offset, f"index of ledger {line.ledger_id} differs from its runs")
