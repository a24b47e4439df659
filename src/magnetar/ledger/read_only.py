"""A log that is only looked at."""

# ruff: noqa: ARG002 - what is refused does not matter

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.base.histogram import Histogram, RecentDurations
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.shared_log.notes import read_foreign, read_life
from magnetar.ledger.shared_log.reader import LogReader
from magnetar.ledger.store import StoreState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from magnetar.base.life import Life
    from magnetar.ledger.medium.interface import SegmentMedium
    from magnetar.ledger.segments.index import LedgerIndex, LogIndex
    from magnetar.ledger.store import OnDurable, Run

_REASON = "the log is only being looked at"
_CACHED_RUNS = 500_000


class _KnownIds:
    """See IdsOfLedgers."""

    def __init__(self, index: LogIndex, life: Life | None, foreign: Sequence[range]) -> None:
        self._index = index
        self._first = 1 if life is None else life.first_ledger_id
        self._foreign = foreign

    def has_given(self, ledger_id: int) -> bool:
        is_known = not self._index.is_unborn and self._first <= ledger_id < self._index.next_ledger_id
        return is_known and not any(ledger_id in each for each in self._foreign)

    def begin_at(self, ledger_id: int) -> None:
        raise StorageError(_REASON)


class ReadOnlyLedgerStore:
    """A LedgerStore over the index that ``survey`` found; what it is asked to change stays as it is."""

    def __init__(self, medium: SegmentMedium, index: LogIndex) -> None:
        """Read the segments of ``medium``, which blocks."""
        self.state = StoreState(_REASON)
        self.life: Life | None = run_blocking(read_life, medium)
        self.ids = _KnownIds(index, self.life, run_blocking(read_foreign, medium))
        self.syncs = True
        self.commit_times = Histogram()
        self.write_latencies = RecentDurations()
        self._index = index
        self._reader = LogReader(medium, index, _CACHED_RUNS)

    @property
    def cached_bytes(self) -> int:
        """See LedgerStore."""
        return self._reader.cached_bytes

    async def look_at_space(self) -> None:
        """Change nothing."""

    def create(self) -> int:
        """Refuse, with StorageError."""
        raise StorageError(_REASON)

    def append(
        self,
        ledger_id: int,
        entries: Sequence[bytes],
        on_durable: OnDurable,
        annotation: bytes = b"",
        *,
        urgent: bool = True,
    ) -> int:
        """Refuse, with StorageError."""
        raise StorageError(_REASON)

    def barrier(self, on_durable: OnDurable) -> None:
        """Report that nothing will be durable."""
        on_durable(StorageError(_REASON))

    def read_cached(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        """Find nothing in memory."""
        self._require(ledger_id)
        return None

    async def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """See LedgerStore; blocks."""
        self._require(ledger_id)
        return await self._reader.read(ledger_id, first, max_entries, max_bytes)

    def hold_runs(self, ledger_ids: Collection[int]) -> None:
        """Hold nothing: ``runs`` reads."""

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """See LedgerStore; blocks, and needs no runs that are held."""
        self._require(ledger_id)
        run_blocking(self._reader.read_runs, [ledger_id])
        try:
            yield from self._reader.runs(ledger_id)
        finally:
            self._reader.release_runs([ledger_id])

    def release_runs(self, ledger_ids: Collection[int]) -> None:
        """Release nothing."""

    def length(self, ledger_id: int) -> int:
        """See LedgerStore."""
        return self._require(ledger_id).length

    def size_bytes(self, ledger_id: int) -> int:
        """See LedgerStore."""
        return self._require(ledger_id).entries_bytes

    def trim(self, ledger_id: int, before_entry_id: int) -> None:
        """Change nothing."""

    def seal(self, ledger_id: int) -> None:
        """Change nothing."""

    def delete(self, ledger_id: int) -> None:
        """Change nothing."""

    def oldest_segment_of(self, ledger_id: int) -> int | None:
        """See LedgerStore."""
        extents = self._require(ledger_id).extents
        return extents[0].segment if extents else None

    def segments(self) -> list[int]:
        """See LedgerStore."""
        return sorted(self._index.segments)

    def pinned_by(self, segment: int) -> list[int]:
        """See LedgerStore."""
        return sorted(self._index.segments.get(segment, {}))

    def list(self) -> list[int]:
        """See LedgerStore."""
        return sorted(self._index.ledgers)

    def _require(self, ledger_id: int) -> LedgerIndex:
        ledger = self._index.ledgers.get(ledger_id)
        if ledger is None:
            message = f"ledger {ledger_id} does not exist"
            raise StorageError(message)
        return ledger
