"""Reading entries back from segments: verified, and from any thread."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError, DamagedEntriesError, StorageError
from magnetar.ledger.segments.record import (
    HEADER_SIZE,
    Kind,
    Record,
    Table,
    decode_record,
    decode_run_entries,
    decode_run_head,
)
from magnetar.ledger.segments.salvage import damaged_ranges, salvage
from magnetar.ledger.segments.segment import SEGMENT_HEADER_SIZE, corruption, segment_path
from magnetar.ledger.shared_log.tail_cache import within
from magnetar.ledger.store import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from magnetar.base.world import File, Files
    from magnetar.ledger.segments.index import Extent, LedgerIndex, LogIndex


class LogReader:
    """Reads what the index calls durable; keeps the tables of the sealed segments read last."""

    def __init__(self, files: Files, directory: Path, index: LogIndex, table_cache_bytes: int) -> None:
        """Read the segments in ``directory``; tables of ``table_cache_bytes`` in all, or one, stay in memory."""
        self._files = files
        self._directory = directory
        self._index = index
        self._table_cache_bytes = table_cache_bytes
        self.cached_bytes = 0
        """Bytes of memory that the tables take."""
        self._tables: OrderedDict[tuple[int, int], Table] = OrderedDict()
        self._lock = threading.Lock()
        """Guards the tables, and keeps a segment from being removed between a look at the index and opening it."""

    def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """See LedgerStore.read."""
        try:
            return self._read(ledger_id, first, max_entries, max_bytes)
        except OSError as error:
            message = f"cannot read ledger {ledger_id} from entry {first}: {error}"
            raise StorageError(message) from error

    def _read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        ledger = self._index.ledgers.get(ledger_id)
        if ledger is None or first >= ledger.length:
            return []
        self._require_held(ledger, first)
        entries: list[bytes] = []
        size = 0
        for extent in ledger.extents_from(first):
            table = self._table(ledger_id, extent)
            file = self._open(ledger_id, extent)
            try:
                at = bisect_right(table.firsts, first) - 1
                if at < 0:  # trimmed since the look at the ledger
                    self._require_held(ledger, first)
                for run in range(at, len(table.firsts)):
                    try:
                        wanted = range(first, first + max_entries - len(entries))
                        found = self._run_entries(file, ledger_id, extent.segment, table, run, wanted)
                    except DamagedEntriesError:
                        if entries:  # whoever asks for the next ones is told
                            return within(entries, max_bytes)
                        raise
                    entries += found
                    size += sum(map(len, found))
                    first += len(found)
                    is_cut = first < table.firsts[run] + table.counts[run]
                    if is_cut or len(entries) >= max_entries or size >= max_bytes:
                        return within(entries, max_bytes)
            finally:
                file.close()
        return within(entries, max_bytes)

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """See LedgerStore.runs."""
        ledger = self._index.ledgers.get(ledger_id)
        if ledger is None:
            return
        for extent in ledger.extents_from(ledger.trimmed_before):
            table = self._table(ledger_id, extent)
            for run in map(Run, table.firsts, table.counts, table.annotations):
                if run.first_entry_id + run.count > ledger.trimmed_before:
                    yield run

    def remove_segment(self, segment: int) -> None:
        """Delete a segment that no ledger needs; whoever is reading it goes on reading the open file."""
        with self._lock:
            del self._index.segments[segment]
            self._files.remove(segment_path(self._directory, segment))

    def _require_held(self, ledger: LedgerIndex, entry_id: int) -> None:
        if entry_id < ledger.trimmed_before:
            message = f"entry {entry_id} of ledger {ledger.ledger_id} was trimmed, as all below {ledger.trimmed_before}"
            raise StorageError(message)

    def _open(self, ledger_id: int, extent: Extent) -> File:
        with self._lock:
            if extent.segment not in self._index.segments:
                message = f"ledger {ledger_id} was deleted or trimmed while it was being read"
                raise StorageError(message)
            return self._files.open(segment_path(self._directory, extent.segment))

    def _run_entries(
        self, file: File, ledger_id: int, segment: int, table: Table, run: int, wanted: range
    ) -> list[bytes]:
        """Return those of the wanted entries that a run has, of a damaged one up to the next that is not intact.

        The run has the first one. Raises DamagedEntriesError if that is not intact.
        """
        offset, size, run_first = table.offsets[run], table.sizes[run], table.firsts[run]
        first = wanted.start
        data = file.read_at(offset, size)
        record = decode_record(data, 0, segment, offset)
        if record is not None and record.kind is Kind.RUN and record.end == offset + size:
            head = decode_run_head(record.body)
            if (head.ledger_id, head.first_entry_id) != (ledger_id, run_first):
                raise corruption(segment_path(self._directory, segment), offset, f"not the run of ledger {ledger_id}")
            return decode_run_entries(record.body, first - run_first, len(wanted))
        salvaged = salvage(data[HEADER_SIZE:], table.counts[run], len(table.annotations[run]))
        for start, end in damaged_ranges(salvaged, run_first):
            if start <= first < end:
                what = f"entries {first} to {end - 1} of ledger {ledger_id} are damaged"
                message = f"{segment_path(self._directory, segment)}: offset {offset}: {what}"
                raise DamagedEntriesError(message, ledger_id, first, end)
            if start > first:
                salvaged = salvaged[: start - run_first]
                break
        return [entry for entry in salvaged[first - run_first :][: len(wanted)] if entry is not None]

    def _record(self, file: File, segment: int, kind: Kind, offset: int, size: int) -> Record:
        record = decode_record(file.read_at(offset, size), 0, segment, offset)
        if record is None or record.kind is not kind or record.end != offset + size:
            raise corruption(segment_path(self._directory, segment), offset, f"broken {kind.name} record")
        return record

    def _table(self, ledger_id: int, extent: Extent) -> Table:
        """Return the extent's runs, of the INDEX record if the segment is sealed."""
        table = extent.table
        if table is not None:
            return table
        key = (extent.segment, ledger_id)
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
                return table
        file = self._open(ledger_id, extent)
        try:
            table = self._indexed(file, ledger_id, extent)
        finally:
            file.close()
        self._remember(key, table)
        return table

    def _indexed(self, file: File, ledger_id: int, extent: Extent) -> Table:
        """Read the extent's INDEX; one that is damaged is made again from the runs. Raises CorruptionError."""
        try:
            record = self._record(file, extent.segment, Kind.INDEX, extent.index_offset, extent.index_size)
        except CorruptionError:
            table = _walked(file.read_at(0, extent.index_offset), extent.segment, ledger_id).suffix_from(extent.first)
            if not table.firsts or (table.firsts[0], table.firsts[-1] + table.counts[-1]) != (extent.first, extent.end):
                raise  # a run is damaged as well
            return table
        return Table.decode(record.body)[1]

    def _remember(self, key: tuple[int, int], table: Table) -> None:
        with self._lock:
            if key not in self._tables:
                self._tables[key] = table
                self.cached_bytes += table.memory_bytes
            while self.cached_bytes > self._table_cache_bytes and len(self._tables) > 1:
                _, evicted = self._tables.popitem(last=False)
                self.cached_bytes -= evicted.memory_bytes


def _walked(data: bytes, segment: int, ledger_id: int) -> Table:
    """Return the runs of a ledger that the intact records at the start of a segment hold."""
    table = Table()
    offset = SEGMENT_HEADER_SIZE
    while (record := decode_record(data, offset, segment, offset)) is not None:
        if record.kind is Kind.RUN and (head := decode_run_head(record.body)).ledger_id == ledger_id:
            table.append(head, offset, record.end - offset)
        offset = record.end
    return table
