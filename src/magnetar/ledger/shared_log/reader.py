"""Reading entries back from segments: verified, and from any thread."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING

from magnetar.base.errors import DamagedEntriesError, SegmentRemovedError, StorageError
from magnetar.ledger.segments.record import (
    HEADER_SIZE,
    Kind,
    Table,
    decode_record,
    decode_run_entries,
    decode_run_head,
)
from magnetar.ledger.segments.salvage import damaged_ranges, salvage
from magnetar.ledger.segments.segment import SEGMENT_HEADER_SIZE, corruption
from magnetar.ledger.shared_log.tail_cache import within
from magnetar.ledger.store import Run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from magnetar.ledger.medium.interface import SegmentMedium, SegmentReader
    from magnetar.ledger.segments.index import Extent, LedgerIndex, LogIndex


class LogReader:
    """Reads what the index calls durable; keeps the tables of the sealed segments read last."""

    def __init__(self, medium: SegmentMedium, index: LogIndex, table_cache_bytes: int) -> None:
        """Read the segments of ``medium``; tables of ``table_cache_bytes`` in all, or one, stay in memory."""
        self._medium = medium
        self._index = index
        self._table_cache_bytes = table_cache_bytes
        self.cached_bytes = 0
        """Bytes of memory that the tables take."""
        self._tables: OrderedDict[tuple[int, int], Table] = OrderedDict()
        self._lock = threading.Lock()
        """Guards the tables."""
        self._held: dict[int, list[Table | StorageError]] = {}
        """The tables of the ledgers whose runs are held, in order, or the errors of reading them."""

    async def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """See LedgerStore.read."""
        ledger = self._index.ledgers.get(ledger_id)
        if ledger is None or first >= ledger.length:
            return []
        self._require_held(ledger, first)
        entries: list[bytes] = []
        size = 0
        for extent in ledger.extents_from(first):
            table = extent.table or await self._table(ledger_id, extent)
            reader = await self._open(ledger_id, extent)
            try:
                run = bisect_right(table.firsts, first) - 1
                if run < 0:  # trimmed since the look at the ledger
                    self._require_held(ledger, first)
                while run < len(table.firsts):
                    places = _places(table, run, first, max_entries - len(entries), max_bytes - size)
                    for data in await reader.read(places):
                        try:
                            wanted = range(first, first + max_entries - len(entries))
                            found = self._run_entries(data, ledger_id, extent.segment, table, run, wanted)
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
                        run += 1
            finally:
                reader.close()
        return within(entries, max_bytes)

    def hold_runs(self, ledger_ids: Collection[int]) -> bool:
        """See LedgerStore.hold_runs."""
        held: dict[int, list[Table | StorageError]] = {}
        for ledger_id in ledger_ids:
            tables = held[ledger_id] = []
            for extent in self._extents(ledger_id):
                table = extent.table or self._remembered((extent.segment, ledger_id))
                if table is None:
                    return False
                tables.append(table)
        self._held |= held
        return True

    async def read_runs(self, ledger_ids: Collection[int]) -> None:
        """See LedgerStore.read_runs."""
        for ledger_id in ledger_ids:
            tables: list[Table | StorageError] = []
            for extent in self._extents(ledger_id):
                try:
                    tables.append(await self._table(ledger_id, extent))
                except StorageError as error:
                    tables.append(error)
            self._held[ledger_id] = tables

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """See LedgerStore.runs."""
        ledger = self._index.ledgers.get(ledger_id)
        trimmed_before = 0 if ledger is None else ledger.trimmed_before
        assert ledger_id in self._held, f"the runs of ledger {ledger_id} are not held"
        for table in self._held[ledger_id]:
            if isinstance(table, StorageError):
                raise table
            for run in map(Run, table.firsts, table.counts, table.annotations):
                if run.first_entry_id + run.count > trimmed_before:
                    yield run

    def release_runs(self, ledger_ids: Collection[int]) -> None:
        """See LedgerStore.release_runs."""
        for ledger_id in ledger_ids:
            self._held.pop(ledger_id, None)

    def _extents(self, ledger_id: int) -> list[Extent]:
        """Return what the segments have of the entries of a ledger that were not trimmed."""
        ledger = self._index.ledgers.get(ledger_id)
        return [] if ledger is None else ledger.extents_from(ledger.trimmed_before)

    def _require_held(self, ledger: LedgerIndex, entry_id: int) -> None:
        if entry_id < ledger.trimmed_before:
            message = f"entry {entry_id} of ledger {ledger.ledger_id} was trimmed, as all below {ledger.trimmed_before}"
            raise StorageError(message)

    async def _open(self, ledger_id: int, extent: Extent) -> SegmentReader:
        try:
            return await self._medium.read(extent.segment)
        except SegmentRemovedError as error:
            message = f"ledger {ledger_id} was deleted or trimmed while it was being read"
            raise StorageError(message) from error

    def _run_entries(
        self, data: bytes, ledger_id: int, segment: int, table: Table, run: int, wanted: range
    ) -> list[bytes]:
        """Return those of the wanted entries that a run has, of a damaged one up to the next that is not intact.

        ``data`` is the run's record. The run has the first one. Raises DamagedEntriesError if that is not intact.
        """
        offset, size, run_first = table.offsets[run], table.sizes[run], table.firsts[run]
        first = wanted.start
        record = decode_record(data, 0, segment, offset)
        if record is not None and record.kind is Kind.RUN and record.end == offset + size:
            head = decode_run_head(record.body)
            if (head.ledger_id, head.first_entry_id) != (ledger_id, run_first):
                raise corruption(self._medium.name_of(segment), offset, f"not the run of ledger {ledger_id}")
            return decode_run_entries(record.body, first - run_first, len(wanted))
        salvaged = salvage(data[HEADER_SIZE:], table.counts[run], len(table.annotations[run]))
        for start, end in damaged_ranges(salvaged, run_first):
            if start <= first < end:
                what = f"entries {first} to {end - 1} of ledger {ledger_id} are damaged"
                message = f"{self._medium.name_of(segment)}: offset {offset}: {what}"
                raise DamagedEntriesError(message, ledger_id, first, end)
            if start > first:
                salvaged = salvaged[: start - run_first]
                break
        return [entry for entry in salvaged[first - run_first :][: len(wanted)] if entry is not None]

    async def _table(self, ledger_id: int, extent: Extent) -> Table:
        """Return the extent's runs, of the INDEX record if the segment is sealed."""
        table = extent.table
        if table is not None:
            return table
        key = (extent.segment, ledger_id)
        table = self._remembered(key)
        if table is not None:
            return table
        reader = await self._open(ledger_id, extent)
        try:
            table = await self._indexed(reader, ledger_id, extent)
        finally:
            reader.close()
        self._remember(key, table)
        return table

    async def _indexed(self, reader: SegmentReader, ledger_id: int, extent: Extent) -> Table:
        """Read the extent's INDEX; one that is damaged is made again from the runs. Raises CorruptionError."""
        segment, offset, size = extent.segment, extent.index_offset, extent.index_size
        (data,) = await reader.read([(offset, size)])
        record = decode_record(data, 0, segment, offset)
        if record is not None and record.kind is Kind.INDEX and record.end == offset + size:
            return Table.decode(record.body)[1]
        (data,) = await reader.read([(0, offset)])
        table = _walked(data, segment, ledger_id).suffix_from(extent.first)
        if not table.firsts or (table.firsts[0], table.firsts[-1] + table.counts[-1]) != (extent.first, extent.end):
            raise corruption(self._medium.name_of(segment), offset, "broken INDEX record")  # a run is damaged as well
        return table

    def _remembered(self, key: tuple[int, int]) -> Table | None:
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
            return table

    def _remember(self, key: tuple[int, int], table: Table) -> None:
        with self._lock:
            if key not in self._tables:
                self._tables[key] = table
                self.cached_bytes += table.memory_bytes
            while self.cached_bytes > self._table_cache_bytes and len(self._tables) > 1:
                _, evicted = self._tables.popitem(last=False)
                self.cached_bytes -= evicted.memory_bytes


def _places(table: Table, run: int, first: int, max_entries: int, max_bytes: int) -> list[tuple[int, int]]:
    """Return where the runs lie, from ``run`` on, that hold so many entries from ``first`` on, or most of them."""
    sizes = table.sizes[run : bisect_left(table.firsts, first + max_entries, run + 1)]
    if sum(sizes) > max_bytes:
        sizes = sizes[: bisect_left(list(accumulate(sizes)), max_bytes) + 1]
    return list(zip(table.offsets[run : run + len(sizes)], sizes, strict=True))


def _walked(data: bytes, segment: int, ledger_id: int) -> Table:
    """Return the runs of a ledger that the intact records at the start of a segment hold."""
    table = Table()
    offset = SEGMENT_HEADER_SIZE
    while (record := decode_record(data, offset, segment, offset)) is not None:
        if record.kind is Kind.RUN and (head := decode_run_head(record.body)).ledger_id == ledger_id:
            table.append(head, offset, record.end - offset)
        offset = record.end
    return table
