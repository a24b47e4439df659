from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.deletions import finish_deletions
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.resources import Topics
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from tests.unit.ledger.managed import TOPIC, FakeClock, ledger_environment, serving
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from pathlib import Path


def test_an_empty_topic_exists_and_has_no_entry(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            assert not Topics(environment.metadata).exists(TOPIC)
            ledger.create()
            ledger.create()
            assert Topics(environment.metadata).exists(TOPIC)
            assert ledger.last_confirmed_entry == ledger.last_position == EARLIEST
            assert ledger.previous_position(ledger.first_position) == EARLIEST
            assert ledger.entries == ledger.size_bytes == 0
            assert ledger.read_cached(EARLIEST, 1, 1) == []
            assert await ledger.read(EARLIEST, 1, 1) == []
            assert not ledger.ledgers()
            first = await environment.append(ledger, [b"a"])
            assert first > EARLIEST
            assert ledger.next_position(EARLIEST) == ledger.first_position == first

    asyncio.run(scenario())


def test_a_property_that_cannot_be_stored_is_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = FaultyMetadataStore(FakeClock())
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger = environment.open()
            ledger.set_property("kept", "1")
            metadata.fail_writes = True
            with pytest.raises(DiskFullError):
                ledger.set_property("kept", "2")
            with pytest.raises(DiskFullError):
                ledger.set_property("new", "1")
            assert ledger.properties == {"kept": "1"}

    asyncio.run(scenario())


def test_a_run_is_readable_once_it_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            first = ledger.append([b"a", b"b"], lambda _position, _error: None)
            assert ledger.last_position == Position(first.ledger_id, 1)
            assert ledger.last_confirmed_entry == EARLIEST
            assert ledger.entries == ledger.confirmed_in(ledger.ledgers()[0]) == 0
            assert ledger.read_cached(first, 10, 100) == []
            await barrier(environment.store)
            assert ledger.last_confirmed_entry == ledger.last_position
            assert ledger.entries == ledger.confirmed_in(ledger.ledgers()[0]) == 2
            assert ledger.read_cached(EARLIEST, 10, 100) == [(first, b"a"), (ledger.last_position, b"b")]
            assert ledger.read_cached(ledger.last_position, 10, 100) == [(ledger.last_position, b"b")]
            assert ledger.read_cached(ledger.next_position(ledger.last_position), 10, 100) == []

    asyncio.run(scenario())


def test_reading_goes_through_the_whole_chain_also_after_reopening(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            written = []
            for number in range(10):
                first = await environment.append(ledger, [b"%d" % number, b"-"], b"note %d" % number)
                written += [(first, b"%d" % number), (ledger.last_position, b"-")]
            for again in (ledger, await environment.reopen(ledger)):
                found: list[tuple[Position, bytes]] = []
                position = again.first_position
                while entries := await again.read(position, 3, 100):
                    found += entries
                    position = again.next_position(entries[-1][0])
                assert found == written
                runs = [run for each in again.ledgers() for run in again.runs_of(each.ledger_id)]
                assert [run.annotation for run in runs] == [b"note %d" % number for number in range(10)]
                assert again.last_confirmed_entry == written[-1][0]
                assert again.count(EARLIEST, again.last_position) == 20
                assert [again.position_at(again.first_position, n) for n in range(20)] == [at for at, _ in written]
            assert await environment.append(again, [b"new"]) > written[-1][0]
            assert again.ledgers()[-1].entries == 1, "a reopened topic begins a new ledger"

    asyncio.run(scenario())


def test_properties_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            ledger.set_property("origin", "lga")
            assert (await environment.reopen(ledger)).properties == {"origin": "lga"}

    asyncio.run(scenario())


def test_a_deleted_topic_is_gone_at_once_and_can_be_created_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            before = [await environment.append(ledger, [b"x"]) for _ in range(6)]
            ledger.delete()
            assert not Topics(environment.metadata).exists(TOPIC)
            again = environment.open()
            assert again.entries == 0
            after = await environment.append(again, [b"y"])
            assert after > before[-1]
            assert environment.store.list() == [after.ledger_id]
            assert environment.metadata.children("/deleting-ledgers") == []

    asyncio.run(scenario())


def test_ledgers_whose_deletion_a_crash_interrupted_are_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            await environment.append(ledger, [b"x"])
            await environment.append(ledger, [b"x"] * 4)
            with monkeypatch.context() as crash:
                crash.setattr(environment.store, "delete", lambda _: None)
                crash.setattr(environment.store, "barrier", lambda _: None)
                ledger.delete()
            assert environment.store.list() != []
            finish_deletions(environment.store, environment.metadata)
            await barrier(environment.store)
            assert environment.store.list() == []
            assert environment.metadata.children("/deleting-ledgers") == []

    asyncio.run(scenario())


def test_a_topic_that_cannot_be_stored_is_fenced(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, fenced = environment.open(), list[StorageError]()
            ledger.observe_fencing(fenced.append)
            metadata.fail_writes = True
            ledger.create()
            with pytest.raises(DiskFullError):
                await Commit(environment.metadata, [])
            assert fenced == [ledger.failure]
            metadata.fail_writes = False
            ledger.close()
            assert not Topics(environment.metadata).exists(TOPIC)

    asyncio.run(scenario())
