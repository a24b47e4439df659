"""Reading a backlog with gaps: entries between two close ranges are read with them, and dropped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.broker.reading.reader import EntryReader
from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.settings.config import BrokerConfig
from magnetar.cursor.ranges import ranges_of
from magnetar.ledger.statistics import LedgerStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

LEDGER = 3
ENTRIES = 60
READ_MAX = 7


class ReadLedger:
    """Entries in one ledger, cached or not; counts the reads from the disk."""

    name = "orders"

    def __init__(self, *, cached: bool) -> None:
        self.statistics = LedgerStatistics()
        self.cached = cached
        self.reads = 0

    def read_cached(self, first: Position, max_entries: int, _max_bytes: int) -> list[tuple[Position, bytes]] | None:
        return self._entries(first, max_entries) if self.cached else None

    async def read(self, first: Position, max_entries: int, _max_bytes: int) -> list[tuple[Position, bytes]]:
        self.reads += 1
        return self._entries(first, max_entries)

    def _entries(self, first: Position, max_entries: int) -> list[tuple[Position, bytes]]:
        ids = range(first.entry_id, min(first.entry_id + max_entries, ENTRIES))
        return [(Position(LEDGER, entry_id), b"%d" % entry_id) for entry_id in ids]


def read_all(ledger: ReadLedger, wanted: Sequence[int], limit: int) -> list[int]:
    """Read like a dispatcher: request the remaining entries, again after each notification."""

    async def run() -> list[int]:
        ready = asyncio.Event()
        reader = EntryReader(
            ledger,  # type: ignore[arg-type]
            ready.set,
            lambda _: None,
            MemoryBudget(memory_limits(BrokerConfig(), 8 << 30)),
            max_entries=READ_MAX,
            max_bytes=1000,
        )
        found: list[int] = []
        while left := [entry_id for entry_id in wanted if not found or entry_id > found[-1]]:
            entries = reader.read_ranges(ranges_of(LEDGER, left[:limit]), limit)
            if entries is None:
                await ready.wait()
                ready.clear()
                continue
            assert 0 < len(entries) <= limit
            assert all(data == b"%d" % position.entry_id for position, data in entries)
            found += [position.entry_id for position, _ in entries]
        return found

    return asyncio.run(run())


@given(st.sets(st.integers(0, ENTRIES - 1), min_size=1), st.integers(1, 9), st.booleans())
def test_exactly_what_is_wanted_is_read(wanted: set[int], limit: int, cached: bool) -> None:
    assert read_all(ReadLedger(cached=cached), sorted(wanted), limit) == sorted(wanted)


@pytest.mark.parametrize("limit", [2, READ_MAX])
def test_holes_near_each_other_share_a_read(limit: int) -> None:
    ledger = ReadLedger(cached=False)
    wanted = range(0, 55, 2)
    assert read_all(ledger, wanted, limit) == list(wanted)
    assert ledger.reads == len(wanted) // 4  # a quarter, because each read has 7 entries, 4 of them wanted


def test_entries_that_are_not_there_are_not_asked_for_at_once_again() -> None:
    async def run() -> int:
        ledger = ReadLedger(cached=False)
        beyond = Position(LEDGER, ENTRIES)

        def ask() -> None:
            assert reader.read(beyond, beyond, 1) is None

        reader = EntryReader(
            ledger,  # type: ignore[arg-type]
            ask,
            lambda _: None,
            MemoryBudget(memory_limits(BrokerConfig(), 8 << 30)),
            max_entries=READ_MAX,
            max_bytes=1000,
        )
        ask()
        loop = asyncio.get_running_loop()
        for _ in range(20):
            turn = loop.create_future()
            loop.call_soon(turn.set_result, None)
            await turn
        reader.close()
        return ledger.reads

    assert asyncio.run(run()) == 1
