from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, ManagedLedgerFencedError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.deletions import finish_deletions
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.resources import Topics, managed_ledger_path
from magnetar.metadata.store import Put
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from tests.unit.ledger.managed import TOPIC, FakeClock, ledger_environment, serving
from tests.unit.ledger.support import barrier, runs_of

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


def test_a_topic_whose_property_cannot_be_stored_is_fenced_before_that_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, told = environment.open(), list[StorageError | str | None]()
            ledger.observe_fencing(lambda _: told.append("fenced"))
            ledger.set_property("kept", "1", on_durable=told.append)
            assert (ledger.properties, told) == ({"kept": "1"}, [])
            await Commit(metadata, [])
            assert told == [None]
            metadata.fail_writes = True
            ledger.set_property("kept", "2", on_durable=told.append)
            with pytest.raises(DiskFullError):
                await Commit(metadata, [])
            assert told[1:] == ["fenced", ledger.failure]
            assert environment.open().properties == {"kept": "1"}
            with pytest.raises(ManagedLedgerFencedError):
                ledger.set_property("kept", "3")

    asyncio.run(scenario())


def test_a_property_that_may_be_lost_is_stored_with_the_next_list(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = FaultyMetadataStore(FakeClock())
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, fenced = environment.open(), list[StorageError]()
            ledger.observe_fencing(fenced.append)
            ledger.create()
            metadata.fail_writes = True
            ledger.note_property("noted", "1")
            assert environment.open().properties == {}
            metadata.fail_writes = False
            await environment.append(ledger, [b"a"])
            assert environment.open().properties == {"noted": "1"}
            assert fenced == []

    asyncio.run(scenario())


def test_what_goes_along_with_a_property_is_stored_with_it_or_not_at_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = FaultyMetadataStore(FakeClock())
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger = environment.open()
            ledger.set_property("a", "1", [Put("/along", b"1")])
            metadata.fail_writes = True
            ledger.set_property("a", "2", [Put("/along", b"2")])
            along = metadata.get("/along")
            assert along is not None
            assert (environment.open().properties, along.value) == ({"a": "1"}, b"1")

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
                runs = [run for each in again.ledgers() for run in await runs_of(environment.store, each.ledger_id)]
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
            cursor = environment.store.create()
            ledger.delete([cursor])
            assert not Topics(environment.metadata).exists(TOPIC)
            again = environment.open()
            assert again.entries == 0
            after = await environment.append(again, [b"y"])
            assert after > before[-1]
            assert cursor in environment.store.list()
            assert len(list(ledger.erasure())) == 3
            await barrier(environment.store)
            assert environment.store.list() == [after.ledger_id]
            assert environment.metadata.children("/deleting-ledgers") == []

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [True, False])
def test_a_deletion_is_told_once_it_is_durable_or_has_failed(tmp_path: Path, fails: bool) -> None:
    async def scenario() -> None:
        metadata = serving()
        async with ledger_environment(tmp_path, metadata) as environment:
            ledger, told = environment.open(), list[StorageError | None]()
            ledger.append([b"a"], lambda *_: None)
            await Commit(metadata, [])
            await barrier(environment.store)
            metadata.fail_writes = fails
            ledger.delete(on_durable=told.append)
            ledger.note_property("late", "a list would create the topic again")
            assert ledger.trim(ledger.last_position, environment.now_ms, (0, 0)) is None
            assert told == []
            if fails:
                with pytest.raises(DiskFullError):
                    await Commit(metadata, [])
                assert [type(each) for each in told] == [DiskFullError]
                assert environment.open().entries == 1
            else:
                await Commit(metadata, [])
                assert told == [None]
                assert metadata.get(managed_ledger_path(TOPIC)) is None

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
                list(ledger.erasure())
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
