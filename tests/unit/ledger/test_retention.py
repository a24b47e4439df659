from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.awaiting import Commit
from tests.unit.ledger.managed import MINUTE_MS, ledger_environment, serving
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from pathlib import Path


NONE = (0, 0)
FOR_EVER = (-1, -1)


def test_trim_never_passes_a_cursor_nor_takes_the_current_ledger(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            positions = [await environment.append(ledger, [b"x"]) for _ in range(10)]
            for consumed in positions:
                ledger.trim(consumed, environment.now_ms, NONE)
                following = ledger.next_position(consumed)
                assert all(ledger.contains(position) for position in positions if position >= following)
                assert positions[-1].ledger_id == ledger.ledgers()[-1].ledger_id
            assert [each.entries for each in ledger.ledgers()] == [2]
            assert ledger.first_position == positions[8]
            await barrier(environment.store)
            assert environment.store.list() == [positions[8].ledger_id]

    asyncio.run(scenario())


def test_trim_tells_the_new_first_position(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            positions = [await environment.append(ledger, [b"x"]) for _ in range(6)]
            assert ledger.trim(positions[2], environment.now_ms, NONE) is None
            assert ledger.trim(positions[3], environment.now_ms, NONE) == positions[4]

    asyncio.run(scenario())


def test_properties_of_trimmed_entries_are_stored_with_the_shorter_list(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            positions = [await environment.append(ledger, [b"x"]) for _ in range(10)]
            versions: list[str] = []
            environment.metadata.watch("/managed-ledgers", lambda change: versions.append(change.path))
            ledger.trim(positions[8], environment.now_ms, NONE, lambda last: {"through": str(last)})
            assert len(versions) == 1, "in one change"
            again = await environment.reopen(ledger)
            assert again.properties == {"through": str(positions[7])}
            assert again.first_position == positions[8]

    asyncio.run(scenario())


def test_retention_keeps_by_time_or_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            config = ManagedLedgerConfig(1, 10**9, 0, 10**9)
            ledger = environment.open(config)
            mebibyte = b"x" * 1024 * 1024
            for _ in range(5):
                await environment.append(ledger, [mebibyte])
            consumed = ledger.last_position
            assert ledger.trim(consumed, environment.now_ms, FOR_EVER) is None
            assert ledger.trim(consumed, environment.now_ms + MINUTE_MS - 1, (1, -1)) is None
            assert ledger.trim(consumed, environment.now_ms, (-1, 5)) is None
            assert ledger.trim(consumed, environment.now_ms, (1, 3)) is not None
            assert ledger.size_bytes == 3 * len(mebibyte), "at least the size stays"
            assert ledger.trim(consumed, environment.now_ms + MINUTE_MS, (1, -1)) is not None
            assert len(ledger.ledgers()) == 1
            await barrier(environment.store)

    asyncio.run(scenario())


def test_an_idle_topic_is_trimmed_to_nothing_and_remembers_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            last = await environment.append(ledger, [b"x"])
            assert ledger.trim(last, environment.now_ms, NONE) is None
            assert ledger.trim(last, environment.now_ms + 10 * MINUTE_MS, NONE) == Position(last.ledger_id, 1)
            await barrier(environment.store)
            assert environment.store.list() == []
            for again in (ledger, await environment.reopen(ledger)):
                assert again.last_confirmed_entry == again.last_position == last
                assert not again.contains(last)
                assert again.count(EARLIEST, last) == 0
                assert again.previous_position(again.first_position) == last
            assert await environment.append(again, [b"y"]) > last

    asyncio.run(scenario())


def test_the_ledgers_of_a_trim_are_deleted_once_the_list_without_them_is_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger = environment.open()
            first = ledger.append([b"x"] * 4, lambda *_: None)
            await Commit(metadata, [])
            second = ledger.append([b"x"], lambda *_: None)
            await Commit(metadata, [])
            await barrier(environment.store)
            assert ledger.trim(Position(first.ledger_id, 3), environment.now_ms, NONE) == second
            assert ledger.first_position == second
            assert ledger.trim(second, environment.now_ms, NONE) is None, "once is enough"
            await barrier(environment.store)
            assert environment.store.list() == [first.ledger_id, second.ledger_id]
            ledger.append([b"x"] * 4, lambda *_: None)
            third = ledger.append([b"y"], lambda *_: None)  # its list is on its way at the same time
            await Commit(metadata, [])
            await barrier(environment.store)
            assert environment.store.list() == [second.ledger_id, third.ledger_id]
            await Commit(metadata, [])
            assert metadata.children("/deleting-ledgers") == []

    asyncio.run(scenario())


def test_a_trim_that_fails_beside_other_lists_is_made_up_for_by_the_next_list(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, failed = environment.open(), list[StorageError | None]()
            first = ledger.append([b"x"] * 4, lambda *_: None)
            await Commit(metadata, [])
            second = ledger.append([b"x"] * 4, lambda *_: None)
            await Commit(metadata, [])
            await barrier(environment.store)
            metadata.fail_writes = True
            ledger.trim(Position(first.ledger_id, 3), environment.now_ms, NONE)
            ledger.append([b"y"], lambda _, error: failed.append(error))  # its list fails together with the trim
            with pytest.raises(DiskFullError):
                await Commit(metadata, [])
            assert [type(each) for each in failed] == [DiskFullError]
            assert environment.store.list() == [first.ledger_id, second.ledger_id]
            metadata.fail_writes = False
            third = ledger.append([b"z"], lambda *_: None)
            await Commit(metadata, [])
            await barrier(environment.store)
            assert environment.store.list() == [second.ledger_id, third.ledger_id]
            assert [each.ledger_id for each in ledger.ledgers()] == environment.store.list()

    asyncio.run(scenario())
