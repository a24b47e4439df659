"""Doubting a whole log: every byte that counts is read, and all that is said twice must agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.ledger.medium.blocking import run_blocking
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
    read_whole,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.ledger.medium.interface import SegmentMedium, SegmentReader
    from magnetar.ledger.segments.recovery import Progress


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
    """Each names the segment and the offset."""
    damaged: list[Damage] = field(default_factory=list)
    """The entries in broken records, where an index says which those are."""
    opens: bool = False
    """Whether a broker that starts can open the log; entries that are damaged do not keep it from that."""

    @property
    def intact(self) -> bool:
        """Whether everything is as it was written."""
        return not self.problems


def check(medium: SegmentMedium, progress: Progress = lambda _done, _total: None) -> Report:
    """Check the log that ``medium`` keeps, which blocks, and change nothing; nobody may be writing it.

    ``progress`` counts segments.
    """
    report = Report()
    report.problems = tuple(_Check(medium, report).problems(progress))
    return report


class _Check:
    """One pass over all segments, oldest first."""

    def __init__(self, medium: SegmentMedium, report: Report) -> None:
        self._medium = medium
        self._report = report
        self._lengths: dict[int, int] = {}
        """Ledger id -> the entry that the next run must start with."""

    def problems(self, progress: Progress) -> Iterator[str]:
        """Yield what is wrong; what follows a broken record in its segment is only seen through the index.

        In the unsealed segment, records whose entries alone are damaged do not end the look.
        """
        try:
            found = run_blocking(survey, self._medium)
        except StorageError as error:
            yield str(error)
            unborn = None
        else:
            self._report.opens = True
            self._report.ledgers = len(found.index.ledgers)
            self._report.torn_bytes = found.tail.size - found.tail.end if found.tail else 0
            unborn = found.unborn
        sequences = run_blocking(self._medium.segments)
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
        name = self._medium.name_of(sequence)
        reader = run_blocking(self._medium.read, sequence)
        try:
            found = run_blocking(read_footer, reader, sequence)
            for line in Footer.decode_extents(found.body) if found is not None else ():
                (data,) = run_blocking(reader.read, [(line.index_offset, line.index_size)])
                index = decode_record(data, 0, sequence, line.index_offset)
                if index is None:
                    yield f"{name}: offset {line.index_offset}: broken index of ledger {line.ledger_id}"
                else:
                    yield from self._name_damaged_of(reader, name, sequence, index)
        finally:
            reader.close()

    def _name_damaged_of(self, reader: SegmentReader, name: str, sequence: int, index: Record) -> Iterator[str]:
        ledger_id, table = Table.decode(index.body)
        runs = zip(table.firsts, table.counts, table.offsets, table.sizes, table.annotations, strict=True)
        for first, count, offset, size, annotation in runs:
            (data,) = run_blocking(reader.read, [(offset, size)])
            if decode_record(data, 0, sequence, offset) is None:
                head = RunHead(ledger_id, first, count, annotation, 0)
                yield from self._name_damaged_run(name, offset, head, data[HEADER_SIZE:])
        self._lengths[ledger_id] = table.firsts[-1] + table.counts[-1]

    def _name_damaged_run(self, name: str, offset: int, head: RunHead, body: bytes) -> Iterator[str]:
        salvaged = salvage(body, head.entries, len(head.annotation))
        for start, end in damaged_ranges(salvaged, head.first_entry_id):
            self._report.damaged.append(Damage(head.ledger_id, start, end))
            yield f"{name}: offset {offset}: entries {start} to {end - 1} of ledger {head.ledger_id} are damaged"

    def _check_segment(self, sequence: int) -> Iterator[str]:
        """Yield the damaged entries of an unsealed segment; raises CorruptionError for other damage."""
        name = self._medium.name_of(sequence)
        reader = run_blocking(self._medium.read, sequence)
        try:
            data = run_blocking(read_whole, reader)
            is_sealed = run_blocking(read_footer, reader, sequence) is not None
        finally:
            reader.close()
        header = decode_segment_header(data, sequence)
        if header is None:
            raise corruption(name, 0, "broken segment header")
        tables: dict[int, Table] = {}
        indexes: dict[int, tuple[int, Record]] = {}
        end = SEGMENT_HEADER_SIZE
        for record in walk(data, header, name):
            if not record.intact and is_sealed:
                raise corruption(name, record.place.offset, "broken record")
            end = record.end
            if record.kind is Kind.RUN:
                self._check_run(record, tables, name)
                if not record.intact:
                    yield from self._name_damaged_run(
                        name, record.place.offset, decode_run_head(record.body), record.body
                    )
            elif record.kind is Kind.INDEX:
                ledger_id, _ = Table.decode(record.body)
                indexes[record.place.offset] = ledger_id, record
            elif record.kind is Kind.FOOTER:
                _check_footer(record, tables, indexes, name)
                if record.end != len(data):
                    raise corruption(name, record.end, "bytes behind the footer")
        if end != len(data) and sequence != max(run_blocking(self._medium.segments)):
            raise corruption(name, end, "broken record in a sealed segment")

    def _check_run(self, record: Record, tables: dict[int, Table], name: str) -> None:
        head = decode_run_head(record.body)
        expected = self._lengths.get(head.ledger_id, head.first_entry_id)
        if head.first_entry_id != expected:
            what = f"ledger {head.ledger_id} goes on with entry {head.first_entry_id}, expected {expected}"
            raise corruption(name, record.place.offset, what)
        if sum(map(len, decode_run_entries(record.body))) != head.entries_bytes:
            raise corruption(name, record.place.offset, "lengths of the entries do not add up")
        self._lengths[head.ledger_id] = head.first_entry_id + head.entries
        size = HEADER_SIZE + len(record.body)
        tables.setdefault(head.ledger_id, Table()).append(head, record.place.offset, size)
        self._report.runs += 1
        self._report.entries += head.entries
        self._report.entries_bytes += head.entries_bytes


def _check_footer(footer: Record, tables: dict[int, Table], indexes: dict[int, tuple[int, Record]], name: str) -> None:
    """Raise CorruptionError unless the index says of the runs what they say themselves."""
    for line in Footer.decode(footer.body).extents:
        ledger_id, index = indexes.get(line.index_offset, (None, None))
        if index is None or ledger_id != line.ledger_id or HEADER_SIZE + len(index.body) != line.index_size:
            raise corruption(name, footer.place.offset, f"footer names no index of ledger {line.ledger_id}")
        _, table = Table.decode(index.body)
        walked = tables.get(line.ledger_id, Table()).suffix_from(table.firsts[0])
        if table != walked or (line.first, line.end) != (table.firsts[0], table.firsts[-1] + table.counts[-1]):
            raise corruption(name, index.place.offset, f"index of ledger {line.ledger_id} differs from its runs")
