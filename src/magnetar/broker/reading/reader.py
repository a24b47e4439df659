"""Reads of a topic's entries for dispatch: immediate from the tail cache, otherwise in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position
from magnetar.broker.reading.background_reader import BackgroundReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.base.errors import DamagedEntriesError
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.resources.memory import MemoryBudget
    from magnetar.cursor.ranges import Range
    from magnetar.ledger.managed_ledger import ManagedLedger


class EntryReader(BackgroundReader[Position, list[tuple[Position, bytes]]]):
    """Answers a read immediately, or calls ``ready`` when the entries are in memory.

    The result of a background read is returned only to a request for entries in it, so a read that became obsolete by a
    rewind is dropped.
    """

    def __init__(
        self,
        ledger: ManagedLedger,
        ready: Callable[[], None],
        damaged: Callable[[DamagedEntriesError], None],
        memory: MemoryBudget,
        *,
        max_entries: int,
        max_bytes: int,
    ) -> None:
        """Read at most ``max_entries`` entries and about ``max_bytes`` bytes at once, as far as ``memory`` has room.

        ``damaged`` is called with entries that can never be read; the next request must omit them.
        """
        super().__init__(ledger, ready, damaged, memory)
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    @classmethod
    def of(
        cls, topic: LoggedTopic, ready: Callable[[], None], damaged: Callable[[DamagedEntriesError], None]
    ) -> EntryReader:
        """Read the entries of a topic, within the limits of its broker."""
        config = topic.environment.config
        return cls(
            topic.ledger,
            ready,
            damaged,
            topic.environment.memory,
            max_entries=config.dispatcherMaxReadBatchSize,
            max_bytes=config.dispatcherMaxReadSizeBytes,
        )

    def read(self, first: Position, last: Position, limit: int) -> list[tuple[Position, bytes]] | None:
        """Return 1 to ``limit`` entries from ``first``, none after ``last``; None: ask again when ready."""
        if self._is_busy:
            return None
        limit = min(limit, self._max_entries)
        entries: list[tuple[Position, bytes]] | None
        skipped = first.entry_id - self._fetched[0][0].entry_id if self._fetched else -1
        is_fetched = 0 <= skipped < len(self._fetched) and self._fetched[skipped][0] == first
        if is_fetched:
            entries = self._fetched[skipped : skipped + limit]
        else:
            entries = self._ledger.read_cached(first, limit, self._max_bytes)
        if entries is None:
            self._begin(first, first)
            return None
        if entries and entries[-1][0] > last:
            entries = [entry for entry in entries if entry[0] <= last]
        if entries:
            entries = self._fitting(entries)
        if entries and is_fetched:
            self._keep(self._fetched[skipped + len(entries) :])
        elif entries:
            self._ledger.statistics.cache_hits += len(entries)
        return entries

    def read_ranges(self, ranges: Sequence[Range], limit: int) -> list[tuple[Position, bytes]] | None:
        """Like ``read``, for all ascending ``ranges`` within one read; entries between the ranges are dropped."""
        first = ranges[0].first
        end = first.entry_id + self._max_entries
        near = [each for each in ranges if each.first.ledger_id == first.ledger_id and each.first.entry_id < end]
        if len(near) == 1:
            return self.read(first, near[0].last, limit)
        entries = self.read(first, near[-1].last, self._max_entries)
        if entries is None:
            return None
        wanted = {entry_id for each in near for entry_id in range(each.first.entry_id, each.last.entry_id + 1)}
        return [entry for entry in entries if entry[0].entry_id in wanted][:limit]

    async def _load(self, wanted: Position) -> list[tuple[Position, bytes]]:
        return await self._ledger.read(wanted, self._max_entries, self._max_bytes)

    def _nothing(self) -> list[tuple[Position, bytes]]:
        return []

    def _entries_of(self, fetched: list[tuple[Position, bytes]]) -> Iterable[bytes]:
        return [entry for _, entry in fetched]
