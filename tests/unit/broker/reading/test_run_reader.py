"""Scattered entries: exactly those are read, in order, within the read limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.broker.reading.run_reader import RunReader
from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.settings.config import BrokerConfig
from magnetar.ledger.statistics import LedgerStatistics

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

LEDGER = 3
ENTRIES = 40
ENTRY_BYTES = 300_000
READ_BYTES = 1_000_000
READERS = 30
TURNS = 2000
"""A number of turns that exceeds the need of every test."""


class Turn:
    """One turn of the loop."""

    def __await__(self) -> Generator[None]:
        yield


class DiskLedger:
    """Entries of one ledger on the disk."""

    name = "orders"

    def __init__(self) -> None:
        self.statistics = LedgerStatistics()

    def read_cached(self, first: Position, max_entries: int, max_bytes: int) -> None:
        del first, max_entries, max_bytes

    async def read(self, first: Position, max_entries: int, max_bytes: int) -> list[tuple[Position, bytes]]:
        await Turn()
        count = min(max_entries, max(1, max_bytes // ENTRY_BYTES))
        ids = range(first.entry_id, first.entry_id + count)
        return [(Position(LEDGER, entry_id), b"%d" % entry_id + bytes(ENTRY_BYTES)) for entry_id in ids]


def memory() -> MemoryBudget:
    config = BrokerConfig.model_validate({"memoryLimitMB": 192, "dispatcherMaxReadSizeBytes": READ_BYTES})
    return MemoryBudget(memory_limits(config, 8 << 30))


class Subscription:
    """Receives its wanted entries, and requests more after each notification."""

    def __init__(self, budget: MemoryBudget, wanted: Sequence[int]) -> None:
        self.left = [Position(LEDGER, entry_id) for entry_id in wanted]
        self.taken: list[int] = []
        ledger: Any = DiskLedger()
        self.reader = RunReader(ledger, self.take, lambda _: None, budget, max_bytes=READ_BYTES)

    def take(self) -> None:
        while self.left and (entries := self.reader.read(self.left)):
            assert [position for position, _ in entries] == self.left[: len(entries)]
            self.taken += [position.entry_id for position, _ in entries]
            del self.left[: len(entries)]


async def turns(count: int) -> None:
    for _ in range(count):
        await Turn()


@given(st.lists(st.integers(0, ENTRIES - 1), min_size=1, unique=True))
def test_exactly_what_is_wanted_is_read_in_its_order(wanted: list[int]) -> None:
    async def run() -> list[int]:
        subscription = Subscription(memory(), wanted)
        subscription.take()
        await turns(TURNS)
        return subscription.taken

    assert asyncio.run(run()) == wanted


def test_many_readers_take_no_more_than_the_share_of_reads() -> None:
    async def run() -> None:
        budget = memory()
        subscriptions = [Subscription(budget, range(0, ENTRIES, 2)) for _ in range(READERS)]
        for each in subscriptions:
            each.take()
        most = 0
        for _ in range(TURNS):
            most = max(most, budget.reads.used)
            await turns(1)
        assert READ_BYTES < most <= budget.reads.limit < READERS * READ_BYTES
        assert all(each.taken == list(range(0, ENTRIES, 2)) for each in subscriptions)
        assert budget.reads.used == 0

    asyncio.run(run())


def test_fetched_entries_wait_for_room_in_the_send_buffers() -> None:
    async def run() -> None:
        budget = memory()
        subscription = Subscription(budget, [5])
        budget.sending.used = budget.sending.limit
        subscription.take()
        await turns(TURNS)
        assert subscription.taken == []
        assert budget.sending.has_waiting
        budget.sending.used = 0
        budget.sending.drained()
        await turns(TURNS)
        assert subscription.taken == [5]

    asyncio.run(run())


def test_a_reader_that_is_closed_in_a_read_holds_nothing() -> None:
    async def run() -> None:
        budget = memory()
        subscription = Subscription(budget, [7, 3])
        subscription.take()
        await turns(1)
        assert budget.reads.used
        subscription.reader.close()
        await turns(TURNS)
        assert subscription.taken == []
        assert budget.reads.used == 0

    asyncio.run(run())
