"""The shared log on a non-blocking medium: groups in flight, and all their possible results."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import StorageError, StorageShortageError, StoreFencedError
from magnetar.broker.log.refusal import reason_against
from magnetar.ledger.shared_log.options import SharedLogOptions
from magnetar.ledger.shared_log.store import SharedLogStore
from tests.unit.ledger.memory_medium import Kept, LoopCommitter, MemoryMedium, turn
from tests.unit.ledger.support import append, barrier, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GROUPS_MAX = 3
OPTIONS = SharedLogOptions(
    segment_bytes=700, group_bytes=0, tail_cache_bytes=1200, table_cache_bytes=400, ledger_id_block=16
)
"""Each run is a group, a segment has some six of them, and few of them stay in memory."""

SHORT = "too few nodes take writes"


def entry(number: int) -> bytes:
    return b"entry %d of the log " % number


async def opened_on(medium: MemoryMedium, options: SharedLogOptions = OPTIONS) -> SharedLogStore:
    store = SharedLogStore(medium, asyncio.get_running_loop(), options, partial(LoopCommitter, GROUPS_MAX))
    await store.open()
    return store


@asynccontextmanager
async def opened(kept: Kept, options: SharedLogOptions = OPTIONS) -> AsyncIterator[tuple[SharedLogStore, MemoryMedium]]:
    """A store on a prompt medium, closed at the end."""
    medium = MemoryMedium(kept)
    store = await opened_on(medium, options)
    yield store, medium
    await store.close()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await turn()


class Reports:
    """The reports about appended runs, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[int, type[StorageError] | None]] = []

    def append(self, store: SharedLogStore, ledger_id: int, number: int, *, urgent: bool = False) -> None:
        def report(error: StorageError | None) -> None:
            self.told.append((number, None if error is None else type(error)))

        store.append(ledger_id, [entry(number)], report, urgent=urgent)


def test_groups_are_in_flight_together_and_reported_in_order_as_they_are_acknowledged() -> None:
    async def scenario() -> None:
        async with opened(Kept()) as (store, medium):
            ledger_id = store.create()
            medium.prompt = False
            reports = Reports()
            for number in range(5):
                reports.append(store, ledger_id, number)
            await turns()
            assert len(medium.in_flight) == GROUPS_MAX
            assert reports.told == []
            medium.acknowledge()
            await turns()
            assert reports.told == [(0, None)]
            assert len(medium.in_flight) == GROUPS_MAX, "the next one followed"
            medium.acknowledge(2)
            await turns()
            assert reports.told == [(0, None), (1, None), (2, None)]
            medium.prompt = True
            medium.acknowledge(2)
            assert await barrier(store) is None
            assert reports.told == [(number, None) for number in range(5)]
            assert await read_all(store, ledger_id) == [entry(number) for number in range(5)]

    asyncio.run(scenario())


def test_a_barrier_is_reported_behind_the_groups_in_flight() -> None:
    async def scenario() -> None:
        async with opened(Kept()) as (store, medium):
            ledger_id = store.create()
            medium.prompt = False
            reports, order = Reports(), []
            reports.append(store, ledger_id, 0)
            store.barrier(lambda _error: order.append(len(reports.told)))
            await turns()
            assert (order, len(medium.in_flight)) == ([], 1)
            medium.acknowledge()
            await turns()
            assert order == [1]
            medium.prompt = True

    asyncio.run(scenario())


def test_segments_are_sealed_when_nothing_is_in_flight_and_found_again() -> None:
    async def scenario() -> None:
        kept = Kept()
        expected: dict[int, list[bytes]] = {}
        for _ in range(3):
            async with opened(kept) as (store, _):
                reports = Reports()
                for number in range(40):
                    ledger_id = store.create() if number % 20 == 0 else max(expected)
                    reports.append(store, ledger_id, number)
                    expected.setdefault(ledger_id, []).append(entry(number))
                assert await barrier(store) is None
                assert reports.told == [(number, None) for number in range(40)]
                for ledger_id, entries in expected.items():
                    assert await read_all(store, ledger_id) == entries
                assert len(store.segments()) > 3
        async with opened(kept) as (store, _):
            gone = min(expected)
            store.delete(gone)
            await barrier(store)
            await turns()
            assert min(kept.segments) > 1, "what nobody needs is removed"
            for ledger_id in expected.keys() - {gone}:
                assert await read_all(store, ledger_id) == expected[ledger_id]

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_leaves_what_was_acknowledged_and_maybe_some_of_what_was_in_flight(seed: int) -> None:
    async def scenario() -> None:
        chance, kept = random.Random(seed), Kept()
        medium = MemoryMedium(kept)
        store = await opened_on(medium)
        ledger_id = store.create()
        medium.prompt = False
        reports = Reports()
        for number in range(40):
            reports.append(store, ledger_id, number)
            if chance.random() < 0.7:
                medium.acknowledge(chance.randint(0, GROUPS_MAX))
            await turns(chance.randint(0, 3))
        confirmed = len(reports.told)
        assert reports.told == [(number, None) for number in range(confirmed)]
        medium.crash(chance)
        async with opened(kept) as (again, _):
            length = again.length(ledger_id)
            assert confirmed <= length <= confirmed + GROUPS_MAX
            assert await append(again, ledger_id, [entry(length)]) == length
            assert await read_all(again, ledger_id) == [entry(number) for number in range(length + 1)]
            assert again.create() > ledger_id
        async with opened(kept) as (again, _):
            assert await read_all(again, ledger_id) == [entry(number) for number in range(length + 1)]

    asyncio.run(scenario())


def test_a_shortage_fails_all_that_is_in_flight_and_nothing_of_it_remains() -> None:
    async def scenario() -> None:
        kept = Kept()
        async with opened(kept) as (store, medium):
            ledger_id, sealed = store.create(), store.create()
            await append(store, ledger_id, [entry(0)])
            await append(store, sealed, [b"s"])
            medium.prompt = False
            reports = Reports()
            for number in range(1, 3):
                reports.append(store, ledger_id, number)
            store.seal(sealed)
            for number in range(3, 6):
                reports.append(store, ledger_id, number)
            await turns()
            medium.acknowledge()
            await turns()
            medium.error = StorageShortageError(SHORT)
            medium.acknowledge()
            await turns()
            assert reports.told == [(1, None), *((number, StorageShortageError) for number in (2, 3, 4, 5))]
            assert store.length(ledger_id) == 2
            refusal = store.state.refusal
            assert isinstance(refusal, StorageShortageError)
            assert str(refusal) == SHORT
            assert store.state.healthy
            medium.error, medium.prompt = None, True
            await store.look_at_space()
            assert store.state.refusal is None
            assert await append(store, ledger_id, [entry(2)]) == 2
            assert await read_all(store, ledger_id) == [entry(number) for number in range(3)]
        async with opened(kept) as (store, _):
            assert await read_all(store, ledger_id) == [entry(number) for number in range(3)]
            with pytest.raises(StorageError, match="is sealed"):
                store.append(sealed, [b"more"], lambda _error: None)

    asyncio.run(scenario())


def test_ids_that_a_shortage_kept_from_being_reserved_are_reserved_after_it() -> None:
    async def scenario() -> None:
        async with opened(Kept()) as (store, medium):
            medium.error = StorageShortageError(SHORT)
            with suppress(StorageError):
                while True:
                    store.create()
                    await turns()
            medium.error = None
            with pytest.raises(StorageError, match="used up"):
                store.create()  # nobody else asks anything of the store
            await turns()
            store.create()

    asyncio.run(scenario())


def test_in_a_shortage_what_is_urgent_goes_on_in_its_order() -> None:
    async def scenario() -> None:
        kept = Kept()
        async with opened(kept) as (store, medium):
            log, cursor = store.create(), store.create()
            await append(store, log, [entry(0)])
            medium.prompt, medium.reserve = False, True
            reports = Reports()
            for number in range(6):
                reports.append(store, cursor, number, urgent=True)
                reports.append(store, log, 10 + number)
            await turns()
            medium.error = StorageShortageError(SHORT)
            medium.prompt = True
            medium.acknowledge()
            assert isinstance(await barrier(store), StorageShortageError)
            assert await barrier(store) is None
            urgent = [(number, error) for number, error in reports.told if number < 10]
            assert urgent == [(number, None) for number in range(6)]
            others = [(number, error) for number, error in reports.told if number >= 10]
            assert others == [(10 + number, StorageShortageError) for number in range(6)]
        async with opened(kept) as (store, _):
            assert await read_all(store, cursor) == [entry(number) for number in range(6)]
            assert await read_all(store, log) == [entry(0)]

    asyncio.run(scenario())


def test_a_segment_that_cannot_be_sealed_for_now_takes_groups_later() -> None:
    async def scenario() -> None:
        kept = Kept()
        async with opened(kept) as (store, medium):
            ledger_id = store.create()
            stored: list[bytes] = []
            for number in range(60):
                medium.error = StorageShortageError(SHORT) if number % 7 == 3 else None
                try:
                    await append(store, ledger_id, [entry(number)])
                except StorageShortageError:
                    continue
                stored.append(entry(number))
            medium.error = None
            assert medium.seals_refused
            assert len(stored) == 60 - len(range(3, 60, 7))
            assert await read_all(store, ledger_id) == stored
            assert len(store.segments()) > 3
        async with opened(kept) as (store, _):
            assert await read_all(store, ledger_id) == stored

    asyncio.run(scenario())


def test_groups_waiting_for_the_next_segment_fail_after_those_in_flight() -> None:
    async def scenario() -> None:
        kept = Kept()
        async with opened(kept) as (store, medium):
            ledger_id = store.create()
            await append(store, ledger_id, [entry(0) * 50])
            medium.prompt = False
            reports = Reports()
            reports.append(store, ledger_id, 1)
            await turns()
            before = store.segments()
            store.append(ledger_id, [entry(2) * 60], lambda error: reports.told.append((2, type(error))))  # type: ignore[arg-type]
            reports.append(store, ledger_id, 3)
            await turns()
            assert len(medium.in_flight) == 1, "the second waits for a new segment"
            medium.fail(StorageShortageError(SHORT))
            medium.prompt = True
            await turns()
            assert reports.told == [(number, StorageShortageError) for number in (1, 2, 3)]
            assert store.segments() == before
            await store.look_at_space()
            assert await append(store, ledger_id, [entry(4) * 60]) == 1
        async with opened(kept) as (store, _):
            assert await read_all(store, ledger_id, max_bytes=5000) == [entry(0) * 50, entry(4) * 60]

    asyncio.run(scenario())


def test_a_writer_whose_log_was_taken_over_is_fenced_for_good() -> None:
    async def scenario() -> None:
        kept = Kept()
        old_medium = MemoryMedium(kept)
        old = await opened_on(old_medium)
        ledger_id = old.create()
        await append(old, ledger_id, [entry(0)])
        old_medium.prompt = False
        reports = Reports()
        for number in range(1, 4):
            reports.append(old, ledger_id, number)
        await turns()
        async with opened(kept) as (new, _):
            old_medium.acknowledge(3)
            await turns()
            assert reports.told == [(number, StoreFencedError) for number in range(1, 4)]
            assert old.state.is_fenced
            assert not old.state.healthy
            assert isinstance(old.state.refusal, StoreFencedError)
            assert "another broker has taken the storage over" in (reason_against(old.state) or "")
            with pytest.raises(StoreFencedError):
                await append(old, ledger_id, [entry(9)])
            await old.look_at_space()
            assert old.state.is_fenced, "nothing heals it"
            await old.close()
            assert await append(new, ledger_id, [entry(5)]) == 1
            assert new.create() > ledger_id
        async with opened(kept) as (new, _):
            assert await read_all(new, ledger_id) == [entry(0), entry(5)]

    asyncio.run(scenario())


def test_after_any_other_error_the_log_has_to_be_opened_again() -> None:
    async def scenario() -> None:
        kept = Kept()
        medium = MemoryMedium(kept, prompt=True)
        store = await opened_on(medium)
        ledger_id = store.create()
        await append(store, ledger_id, [entry(0)])
        medium.error = StorageError("the node is gone")
        reports = Reports()
        for number in range(1, 6):
            reports.append(store, ledger_id, number)
        await turns()
        assert reports.told == [(number, StorageError) for number in range(1, 6)]
        assert (store.state.failure, store.state.is_fenced) == ("the node is gone", False)
        medium.error = None
        with pytest.raises(StorageError, match="the node is gone"):
            await append(store, ledger_id, [entry(6)])
        await store.close()
        async with opened(kept) as (again, _):
            assert await read_all(again, ledger_id) == [entry(0)]

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [StorageError("unreachable"), StorageShortageError(SHORT)])
def test_a_log_that_cannot_be_written_is_not_opened(error: StorageError) -> None:
    async def scenario() -> None:
        medium = MemoryMedium(Kept())
        medium.error = error
        with pytest.raises(type(error), match=str(error)):
            await opened_on(medium)

    asyncio.run(scenario())


@dataclass
class Known:
    """The expected contents of a ledger: confirmed entries, then those that may have survived."""

    confirmed: list[bytes] = field(default_factory=list)
    asked: list[bytes] = field(default_factory=list)
    """All entries of the ledger, up to the first refused one."""


class Turmoil:
    """Writers one after the other on one medium, with shortages, errors, crashes and fencing."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kept = Kept()
        self.ledgers: dict[int, Known] = {}
        self.number = 0
        self.options = SharedLogOptions(
            segment_bytes=self.chance.choice((400, 1500)),
            group_bytes=self.chance.choice((0, 60, 1000)),
            tail_cache_bytes=1200,
            table_cache_bytes=400,
            ledger_id_block=16,
        )

    async def run(self) -> None:
        for _ in range(5):
            medium = MemoryMedium(self.kept)
            store = await opened_on(medium, self.options)
            await self.check(store)
            medium.prompt = False
            for _ in range(self.chance.randint(5, 60)):
                await self.step(store, medium)
                await turns(self.chance.randint(0, 4))
            if self.chance.random() < 0.3 and store.state.healthy:
                medium.prompt, medium.error = True, None
                medium.acknowledge(GROUPS_MAX)
                await store.close()
            else:
                medium.crash(self.chance)

    async def step(self, store: SharedLogStore, medium: MemoryMedium) -> None:
        chance = self.chance.random()
        if chance < 0.1 or not self.ledgers:
            self.ledgers[store.create()] = Known()
        elif chance < 0.6:
            self.append(store, self.chance.choice(list(self.ledgers)))
        elif chance < 0.9:
            medium.acknowledge(self.chance.randint(1, GROUPS_MAX))
        elif chance < 0.95:
            medium.error = self.chance.choice((None, None, StorageShortageError(SHORT)))
            await store.look_at_space()
        elif chance < 0.96:
            medium.error = StorageError("gone")

    def append(self, store: SharedLogStore, ledger_id: int) -> None:
        known = self.ledgers[ledger_id]
        if not store.state.healthy:
            return
        self.number += 1
        run = [entry(self.number)] * self.chance.randint(1, 3)
        first = store.length(ledger_id)
        is_taken = store.state.refusal is None

        def report(error: StorageError | None) -> None:
            if error is None:
                assert is_taken
                assert len(known.confirmed) == first, "in order, without a gap"
                known.confirmed += run
            elif is_taken and isinstance(error, StorageShortageError):
                del known.asked[first:]

        assert store.append(ledger_id, run, report, urgent=False) == first
        if is_taken:
            assert first == len(known.asked)
            known.asked += run

    async def check(self, store: SharedLogStore) -> None:
        """Check that confirmed entries exist, and no entries that were never appended or were refused."""
        for ledger_id, known in list(self.ledgers.items()):
            if ledger_id not in store.list():
                assert known.confirmed == []
                del self.ledgers[ledger_id]
                continue
            found = await read_all(store, ledger_id)
            assert found[: len(known.confirmed)] == known.confirmed
            assert found == known.asked[: len(found)]
            known.confirmed, known.asked = list(found), list(found)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_becomes_of_groups_in_flight_what_was_confirmed_stays(seed: int) -> None:
    asyncio.run(Turmoil(seed).run())
