"""Reads of scattered entries of a topic's log, in any order: due delayed messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position
from magnetar.broker.reading.background_reader import BackgroundReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.base.errors import DamagedEntriesError
    from magnetar.broker.resources.memory import MemoryBudget
    from magnetar.ledger.managed_ledger import ManagedLedger


class RunReader(BackgroundReader["Sequence[Position]", dict[Position, bytes]]):
    """Reads exactly the requested entries, in the requested order."""

    def __init__(
        self,
        ledger: ManagedLedger,
        ready: Callable[[], None],
        damaged: Callable[[DamagedEntriesError], None],
        memory: MemoryBudget,
        *,
        max_bytes: int,
    ) -> None:
        """Read at most ``max_bytes`` bytes at once, or one entry, as far as ``memory`` has room."""
        super().__init__(ledger, ready, damaged, memory)
        self._max_bytes = max_bytes

    def read(self, positions: Sequence[Position]) -> list[tuple[Position, bytes]] | None:
        """Return at least one of the first requested entries, all of one ledger; None: ask again when ready."""
        if self._is_busy:
            return None
        found = self._in_memory(positions)
        if not found:
            self._begin(positions, positions[0])
            return None
        entries = self._fitting(found)
        if entries and self._fetched:
            sent = {position for position, _ in entries}
            self._keep({position: entry for position, entry in self._fetched.items() if position not in sent})
        return entries

    def _in_memory(self, positions: Sequence[Position]) -> list[tuple[Position, bytes]]:
        """Return the first requested entries, all of one ledger, that were fetched or are in the cache."""
        entries: list[tuple[Position, bytes]] = []
        size = 0
        for first, count in runs_of(positions):
            if first.ledger_id != positions[0].ledger_id or size >= self._max_bytes:
                break
            run = self._fetched_run(first, count)
            if not run:
                run = self._ledger.read_cached(first, count, self._max_bytes - size) or []
                self._ledger.statistics.cache_hits += len(run)
            entries += run
            size += sum([len(entry) for _, entry in run])
            if len(run) < count:
                break
        return entries

    def _fetched_run(self, first: Position, count: int) -> list[tuple[Position, bytes]]:
        """Return fetched consecutive entries from ``first`` on, at most ``count``."""
        run: list[tuple[Position, bytes]] = []
        for entry_id in range(first.entry_id, first.entry_id + count):
            position = Position(first.ledger_id, entry_id)
            entry = self._fetched.get(position)
            if entry is None:
                break
            run.append((position, entry))
        return run

    async def _load(self, wanted: Sequence[Position]) -> dict[Position, bytes]:
        fetched: dict[Position, bytes] = {}
        size = 0
        for first, count in runs_of(wanted):
            room = self._max_bytes - size
            run = self._ledger.read_cached(first, count, room) or await self._ledger.read(first, count, room)
            size += sum([len(entry) for _, entry in run])
            if size > self._max_bytes and fetched:  # a read returns at least one entry, of any size
                break
            fetched.update(run)
            if size >= self._max_bytes:
                break
        return fetched

    def _nothing(self) -> dict[Position, bytes]:
        return {}

    def _entries_of(self, fetched: dict[Position, bytes]) -> Iterable[bytes]:
        return fetched.values()


def runs_of(positions: Iterable[Position]) -> list[tuple[Position, int]]:
    """Return the positions as runs: the first position of each, and the number of consecutive positions."""
    runs: list[tuple[Position, int]] = []
    for position in positions:
        if runs:
            first, count = runs[-1]
            if position == (first.ledger_id, first.entry_id + count):
                runs[-1] = first, count + 1
                continue
        runs.append((position, 1))
    return runs
