"""A ledger store in memory with manual commits."""

# ruff: noqa: ARG002 - it has the parameters of LedgerStore

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import DamagedEntriesError, DiskFullError, StorageError
from magnetar.base.histogram import Histogram, RecentDurations
from magnetar.ledger.store import Run, StoreState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence

    from magnetar.base.life import Life
    from magnetar.ledger.store import OnDurable


@dataclass
class _Ledger:
    length: int = 0
    """Number of appended entries, durable or not."""
    sealed: bool = False
    runs: list[Run] = field(default_factory=list)
    """The durable runs."""
    entries: list[bytes] = field(default_factory=list)
    trimmed: int = 0


class _Ids:
    """See IdsOfLedgers; nothing waits, and files are never lost."""

    def __init__(self) -> None:
        self.last = 0

    def has_given(self, ledger_id: int) -> bool:
        return True

    def begin_at(self, ledger_id: int) -> None:
        self.last = max(self.last, ledger_id - 1)


class ManualStore:
    """See LedgerStore. Requests wait in ``pending`` until ``commit`` or ``fail``."""

    def __init__(self) -> None:
        """Create an empty store."""
        self.state = StoreState()
        self.ledgers: dict[int, _Ledger] = {}
        self.pending: deque[tuple[Callable[[], None], OnDurable]] = deque()
        self.cached = True
        """Whether ``read_cached`` finds durable entries."""
        self.has_runs = True
        """Whether runs are in memory."""
        self.damaged: set[bytes] = set()
        """Entries that cannot be read from the disk."""
        self.life: Life | None = None
        self.syncs = True
        self.cached_bytes = 0
        self.commit_times = Histogram()
        self.write_latencies = RecentDurations()
        self.ids = _Ids()

    def commit(self, count: int | None = None) -> None:
        """Make the oldest ``count`` requests durable, by default all pending ones."""
        for _ in range(len(self.pending) if count is None else count):
            apply, on_durable = self.pending.popleft()
            apply()
            on_durable(None)

    def fail(self) -> None:
        """Fail all pending requests because the disk is full: roll back first, then report."""
        failed, self.pending = self.pending, deque()
        for ledger in self.ledgers.values():
            ledger.length = len(ledger.entries)
        for _, on_durable in failed:
            on_durable(DiskFullError("no space left on device"))

    def crash(self) -> None:
        """Drop everything that is not durable."""
        self.pending.clear()
        for ledger_id, ledger in list(self.ledgers.items()):
            ledger.length = len(ledger.entries)
            if not ledger.entries:
                del self.ledgers[ledger_id]

    def lose(self, ledger_id: int, length: int) -> None:
        """Remove the durable entries of a ledger after the first ``length``, at the end of a run."""
        ledger = self.ledgers[ledger_id]
        del ledger.entries[length:]
        ledger.runs = [run for run in ledger.runs if run.first_entry_id < length]
        assert sum(run.count for run in ledger.runs) == length

    @property
    def next_ledger_id(self) -> int:
        """See LocalLedgerStore."""
        return self.ids.last + 1

    async def look_at_space(self) -> None:
        """See LedgerStore; there is always space."""

    def create(self) -> int:
        """See LedgerStore."""
        self.ids.last += 1
        self.ledgers[self.ids.last] = _Ledger()
        return self.ids.last

    def append(
        self,
        ledger_id: int,
        entries: Sequence[bytes],
        on_durable: OnDurable,
        annotation: bytes = b"",
        *,
        urgent: bool = True,
    ) -> int:
        """See LedgerStore."""
        ledger = self._require(ledger_id)
        if ledger.sealed:
            message = f"ledger {ledger_id} is sealed"
            raise StorageError(message)
        first = ledger.length
        ledger.length += len(entries)

        def apply() -> None:
            assert len(ledger.entries) == first, "runs become durable in order"
            ledger.runs.append(Run(first, len(entries), annotation))
            ledger.entries += entries

        self.pending.append((apply, on_durable))
        return first

    def barrier(self, on_durable: OnDurable) -> None:
        """See LedgerStore."""
        self.pending.append((lambda: None, on_durable))

    def read_cached(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        """See LedgerStore."""
        return self._require(ledger_id).entries[first : first + max_entries] if self.cached else None

    async def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """See LedgerStore."""
        ledger = self._require(ledger_id)
        if first < ledger.trimmed:
            message = f"entry {first} of ledger {ledger_id} was trimmed"
            raise StorageError(message)
        found = ledger.entries[first : first + max_entries]
        at = next((at for at, entry in enumerate(found) if entry in self.damaged), len(found))
        if found and at == 0:
            end = next((at for at, entry in enumerate(found) if entry not in self.damaged), len(found))
            message = f"entries {first} to {first + end - 1} of ledger {ledger_id} are damaged"
            raise DamagedEntriesError(message, ledger_id, first, first + end)
        return found[:at]

    def hold_runs(self, ledger_ids: Collection[int]) -> Coroutine[Any, Any, None] | None:
        """See LedgerStore."""
        return None if self.has_runs or not ledger_ids else asyncio.sleep(0)

    def release_runs(self, ledger_ids: Collection[int]) -> None:
        """See LedgerStore."""

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """See LedgerStore."""
        ledger = self._require(ledger_id)
        return iter([run for run in ledger.runs if run.first_entry_id + run.count > ledger.trimmed])

    def length(self, ledger_id: int) -> int:
        """See LedgerStore."""
        return self._require(ledger_id).length

    def size_bytes(self, ledger_id: int) -> int:
        """See LedgerStore."""
        return sum(map(len, self._require(ledger_id).entries))

    def trim(self, ledger_id: int, before_entry_id: int) -> None:
        """See LedgerStore."""
        self._require(ledger_id).trimmed = before_entry_id

    def seal(self, ledger_id: int) -> None:
        """See LedgerStore."""
        self._require(ledger_id).sealed = True

    def delete(self, ledger_id: int) -> None:
        """See LedgerStore."""
        self.ledgers.pop(ledger_id, None)

    def oldest_segment_of(self, ledger_id: int) -> int | None:
        """See LedgerStore; there is one segment."""
        return 0 if ledger_id in self.ledgers else None

    def segments(self) -> list[int]:
        """See LedgerStore; there is one segment."""
        return [0]

    def pinned_by(self, segment: int) -> list[int]:
        """See LedgerStore."""
        return sorted(self.ledgers)

    def list(self) -> list[int]:
        """See LedgerStore."""
        return sorted(self.ledgers)

    def _require(self, ledger_id: int) -> _Ledger:
        if ledger_id not in self.ledgers:
            message = f"ledger {ledger_id} does not exist"
            raise StorageError(message)
        return self.ledgers[ledger_id]
