"""A log of positions and a ledger store in memory, for tests of cursors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.histogram import Histogram, RecentDurations
from magnetar.base.position import Position
from magnetar.cursor.ranges import Range
from magnetar.ledger.store import Run, StoreState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from magnetar.base.life import Life
    from magnetar.ledger.store import OnDurable


def singly(positions: Iterable[Position]) -> list[Range]:
    """Return each position as a range."""
    return [Range(position, position) for position in positions]


class Log:
    """The positions of a topic as a list."""

    def __init__(self, first_ledger_id: int = 3, step: int = 4) -> None:
        self.positions: list[Position] = []
        self.ledger_id = first_ledger_id
        self.step = step
        self.next_entry_id = 0

    def append(self) -> Position:
        self.positions.append(Position(self.ledger_id, self.next_entry_id))
        self.next_entry_id += 1
        return self.positions[-1]

    def roll(self) -> None:
        if self.next_entry_id:
            self.ledger_id, self.next_entry_id = self.ledger_id + self.step, 0

    def trim(self, before_ledger_id: int) -> None:
        self.positions = [position for position in self.positions if position.ledger_id >= before_ledger_id]

    def next_position(self, position: Position) -> Position:
        at = bisect_right(self.positions, position)
        return self.positions[at] if at < len(self.positions) else Position(self.ledger_id, self.next_entry_id)

    def previous_position(self, position: Position) -> Position:
        at = bisect_left(self.positions, position)
        return self.positions[at - 1] if at else Position(position.ledger_id, -1)

    def count(self, after: Position, through: Position) -> int:
        return max(0, bisect_right(self.positions, through) - bisect_right(self.positions, after))


class MemoryLedgerStore:
    """A ledger store with manual commits, which loses uncommitted data in a crash."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.life: Life | None = None
        self.syncs = True
        self.cached_bytes = 0
        self.commit_times = Histogram()
        self.write_latencies = RecentDurations()
        self.runs_of: dict[int, list[Run]] = {}
        self.lengths: dict[int, int] = {}
        self.pending: list[tuple[int | None, Run | None, OnDurable]] = []
        self.next_id = 100

    @property
    def ids(self) -> Self:
        return self

    def has_given(self, ledger_id: int) -> bool:
        return ledger_id <= self.next_id

    async def look_at_space(self) -> None:
        pass

    def begin_at(self, ledger_id: int) -> None:
        self.next_id = max(self.next_id, ledger_id - 1)

    def create(self) -> int:
        self.next_id += 1
        self.lengths[self.next_id] = 0
        return self.next_id

    def append(
        self,
        ledger_id: int,
        entries: Sequence[bytes],
        on_durable: OnDurable,
        annotation: bytes = b"",
        *,
        urgent: bool = True,
    ) -> int:
        first = self.length(ledger_id)
        self.lengths[ledger_id] += len(entries)
        self.pending.append((ledger_id, Run(first, len(entries), annotation), on_durable))
        return first

    def barrier(self, on_durable: OnDurable) -> None:
        self.pending.append((None, None, on_durable))

    def settle(self) -> None:
        """Make all requests durable."""
        pending, self.pending = self.pending, []
        for ledger_id, run, _ in pending:
            if ledger_id is not None and run is not None and ledger_id in self.lengths:
                self.runs_of.setdefault(ledger_id, []).append(run)
        for _, _, on_durable in pending:
            on_durable(None)

    def fail(self) -> None:
        """Fail all requests because the disk is full."""
        pending, self.pending = self.pending, []
        for ledger_id, run, _ in pending:
            if ledger_id in self.lengths and run is not None:
                self.lengths[ledger_id] = min(self.lengths[ledger_id], run.first_entry_id)
        for _, _, on_durable in pending:
            on_durable(DiskFullError("no space"))

    def crash(self) -> None:
        """Drop everything that is not durable, including ledgers without entries."""
        self.pending.clear()
        self.lengths = {ledger_id: runs[-1].first_entry_id + 1 for ledger_id, runs in self.runs_of.items()}

    async def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        raise NotImplementedError

    def read_cached(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        raise NotImplementedError

    def hold_runs(self, ledger_ids: Collection[int]) -> None:
        pass

    def release_runs(self, ledger_ids: Collection[int]) -> None:
        pass

    def runs(self, ledger_id: int) -> Iterator[Run]:
        self.length(ledger_id)
        return iter(self.runs_of.get(ledger_id, []))

    def length(self, ledger_id: int) -> int:
        if ledger_id not in self.lengths:
            raise StorageError(ledger_id)
        return self.lengths[ledger_id]

    def size_bytes(self, ledger_id: int) -> int:
        return 0

    def trim(self, ledger_id: int, before_entry_id: int) -> None:
        self.runs_of[ledger_id] = [run for run in self.runs_of[ledger_id] if run.first_entry_id >= before_entry_id]

    def seal(self, ledger_id: int) -> None:
        raise NotImplementedError

    def delete(self, ledger_id: int) -> None:
        self.runs_of.pop(ledger_id, None)
        self.lengths.pop(ledger_id, None)

    def oldest_segment_of(self, ledger_id: int) -> int | None:
        return 0 if self.runs_of.get(ledger_id) else None

    def segments(self) -> list[int]:
        return [0, 1]

    def pinned_by(self, segment: int) -> list[int]:
        return sorted(self.runs_of) if segment == 0 else []

    def list(self) -> list[int]:
        return sorted(self.lengths)
