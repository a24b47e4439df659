from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.awaiting import Commit
from tests.unit.ledger.managed import ledger_environment, serving
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("config", "entry", "expected"),
    [
        (ManagedLedgerConfig(4, 10**6, 0, 10**6), b"x", [4, 4, 2]),
        (ManagedLedgerConfig(10**6, 50, 0, 10**6), b"x" * 20, [3, 3, 3, 1]),
        (ManagedLedgerConfig(10**6, 10**6, 0, 3000), b"x", [3, 3, 3, 1]),
        (ManagedLedgerConfig(1, 1, 5000, 10**6), b"x", [5, 5]),
    ],
    ids=["entries", "bytes", "age", "not younger than the minimum"],
)
def test_a_ledger_rolls_over(tmp_path: Path, config: ManagedLedgerConfig, entry: bytes, expected: list[int]) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open(config)
            for _ in range(10):
                ledger.append([entry], lambda _position, _error: None)
                environment.clock.seconds += 1
            assert [each.entries for each in ledger.ledgers()] == expected
            assert ledger.size_bytes == 10 * len(entry)
            await barrier(environment.store)
            assert ledger.entries == 10
            assert [ledger.confirmed_in(each) for each in ledger.ledgers()] == expected

    asyncio.run(scenario())


def test_a_clock_that_went_back_does_not_keep_a_ledger_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open(ManagedLedgerConfig(2, 10**6, 60_000, 10**9))
            environment.clock.seconds += 10**9
            await environment.append(ledger, [b"a", b"b"])
            environment.clock.seconds -= 10**9
            await environment.append(ledger, [b"c"])
            assert [each.entries for each in ledger.ledgers()] == [3], "not younger than the minimum"
            environment.clock.seconds += 60
            await environment.append(ledger, [b"d"])
            assert [each.entries for each in ledger.ledgers()] == [3, 1]

    asyncio.run(scenario())


def test_a_run_is_written_once_its_ledger_is_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path, serving()) as environment:
            ledger, reports = environment.open(), list[tuple[Position, StorageError | None]]()
            first = ledger.append([b"a"], lambda *report: reports.append(report))
            second = ledger.append([b"b", b"c"], lambda *report: reports.append(report))
            assert second == (first.ledger_id, 1)
            assert (ledger.last_position, ledger.entries) == ((first.ledger_id, 2), 0)
            await barrier(environment.store)
            assert environment.store.length(first.ledger_id) == 0
            assert ledger.is_being_listed
            await Commit(environment.metadata, [])
            assert not ledger.is_being_listed
            await barrier(environment.store)
            assert reports == [(first, None), (second, None)]

    asyncio.run(scenario())


def test_entries_for_a_full_ledger_wait_until_the_next_one_is_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path, serving()) as environment:
            ledger = environment.open()
            full = ledger.append([b"a"] * 4, lambda *_: None)
            await Commit(environment.metadata, [])
            await barrier(environment.store)
            following = [ledger.append([b"b"], lambda *_: None) for _ in range(3)]
            assert len({position.ledger_id for position in following}) == 1
            assert following[0].ledger_id > full.ledger_id
            assert ledger.last_confirmed_entry == Position(full.ledger_id, 3), "nothing is written before the list"
            await Commit(environment.metadata, [])
            await barrier(environment.store)
            assert ledger.last_confirmed_entry == following[-1]
            assert ledger.next_position(Position(full.ledger_id, 3)) == following[0]
            assert (await environment.reopen(ledger)).entries == 7

    asyncio.run(scenario())


def test_runs_that_wait_for_a_ledger_fail_if_it_cannot_be_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, reports = environment.open(), list[StorageError | None]()
            metadata.fail_writes = True
            for _ in range(2):
                ledger.append([b"a"], lambda _, error: reports.append(error))
            with pytest.raises(DiskFullError):
                await Commit(environment.metadata, [])
            assert [type(each) for each in reports] == [DiskFullError, DiskFullError]
            assert not ledger.ledgers()
            assert ledger.last_position == EARLIEST
            metadata.fail_writes = False
            ledger.append([b"b"], lambda _, error: reports.append(error))
            await Commit(environment.metadata, [])
            await barrier(environment.store)
            assert reports[2:] == [None]
            assert (await environment.reopen(ledger)).entries == 1

    asyncio.run(scenario())


def test_a_full_ledger_takes_nothing_if_the_next_one_cannot_be_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, reports = environment.open(), list[StorageError | None]()
            first = ledger.append([b"a"] * 4, lambda *_: None)
            await Commit(environment.metadata, [])
            metadata.fail_writes = True
            ledger.append([b"b"], lambda _, error: reports.append(error))
            with pytest.raises(DiskFullError):
                await Commit(environment.metadata, [])
            assert [type(each) for each in reports] == [DiskFullError]
            assert ledger.last_position == Position(first.ledger_id, 3)
            metadata.fail_writes = False
            following = ledger.append([b"c"], lambda _, error: reports.append(error))
            await Commit(environment.metadata, [])
            await barrier(environment.store)
            assert reports[1:] == [None]
            assert following.ledger_id > first.ledger_id
            assert (await environment.reopen(ledger)).entries == 5

    asyncio.run(scenario())


def test_a_barrier_keeps_its_place_among_runs_that_wait_for_their_ledger(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path, serving()) as environment:
            ledger, told = environment.open(), list[str]()
            ledger.append([b"a"], lambda *_: told.append("first"))
            ledger.barrier(lambda _: told.append("barrier"))
            ledger.append([b"b"], lambda *_: told.append("second"))
            await Commit(environment.metadata, [])
            ledger.barrier(lambda _: told.append("last"))
            await barrier(environment.store)
            assert told == ["first", "barrier", "second", "last"]

    asyncio.run(scenario())
