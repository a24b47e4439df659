from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DataLossError, DiskFullError, ManagedLedgerFencedError, StorageError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.deletions import finish_deletions
from magnetar.ledger.managed_ledger import ManagedLedger, ManagedLedgerConfig
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.resources import Topics, managed_ledger_path
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from tests.unit.ledger.support import barrier, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from magnetar.ledger.local import LocalLedgerStore

TOPIC = TopicName.parse("persistent://nyc/flights/departures 2013")
MINUTE_MS = 60_000
CONFIG = ManagedLedgerConfig(
    max_entries_per_ledger=4, max_size_per_ledger_bytes=100, min_rollover_ms=0, max_rollover_ms=10 * MINUTE_MS
)
NONE = (0, 0)
FOR_EVER = (-1, -1)


@dataclass
class FakeClock:
    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class World:
    """A store, metadata and a clock."""

    def __init__(self, store: LocalLedgerStore, metadata: MemoryMetadataStore, clock: FakeClock) -> None:
        self.store = store
        self.metadata = metadata
        self.clock = clock

    @property
    def now_ms(self) -> int:
        return int(self.clock.seconds * 1000)

    def open(self, config: ManagedLedgerConfig = CONFIG) -> ManagedLedger:
        return ManagedLedger.open(self.store, self.metadata, TOPIC, config, self.clock)

    async def reopen(self, ledger: ManagedLedger) -> ManagedLedger:
        ledger.close()
        await barrier(self.store)
        return self.open()

    async def append(self, ledger: ManagedLedger, entries: Sequence[bytes], annotation: bytes = b"") -> Position:
        reports: list[tuple[Position, StorageError | None]] = []
        first = ledger.append(entries, lambda *report: reports.append(report), annotation)
        await barrier(self.store)
        assert reports == [(first, None)]
        return first


@asynccontextmanager
async def a_world(directory: Path, metadata: MemoryMetadataStore | None = None) -> AsyncIterator[World]:
    clock = FakeClock()
    async with opened(directory) as store:
        yield World(store, metadata or MemoryMetadataStore(clock), clock)


def test_an_empty_topic_exists_and_has_no_entry(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            assert not Topics(world.metadata).exists(TOPIC)
            ledger.create()
            ledger.create()
            assert Topics(world.metadata).exists(TOPIC)
            assert ledger.last_confirmed_entry == ledger.last_position == EARLIEST
            assert ledger.previous_position(ledger.first_position) == EARLIEST
            assert ledger.entries == ledger.size_bytes == 0
            assert ledger.read_cached(EARLIEST, 1, 1) == []
            assert await ledger.read(EARLIEST, 1, 1) == []
            assert not ledger.ledgers()
            first = await world.append(ledger, [b"a"])
            assert first > EARLIEST
            assert ledger.next_position(EARLIEST) == ledger.first_position == first

    asyncio.run(story())


def test_a_property_that_cannot_be_stored_is_not_kept(tmp_path: Path) -> None:
    async def story() -> None:
        metadata = FaultyMetadataStore(FakeClock())
        async with a_world(tmp_path, metadata) as world:
            ledger = world.open()
            ledger.set_property("kept", "1")
            metadata.fail_writes = True
            with pytest.raises(DiskFullError):
                ledger.set_property("kept", "2")
            with pytest.raises(DiskFullError):
                ledger.set_property("new", "1")
            assert ledger.properties == {"kept": "1"}

    asyncio.run(story())


def test_entries_that_were_being_written_when_the_topic_was_closed_are_not_taken_for_older_ones(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            first = await world.append(ledger, [b"a"])
            world.clock.seconds += 10
            ledger.append([b"b"], lambda *_: None)
            ledger.close()
            await barrier(world.store)
            again = world.open()
            assert again.entries == 2
            assert again.position_older_than(5) < first
            world.clock.seconds += 6
            assert again.position_older_than(5) == again.last_confirmed_entry

    asyncio.run(story())


def test_a_list_without_append_times_opens_and_ages_count_from_the_closing(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            first = await world.append(ledger, [b"a"])
            world.clock.seconds += 10
            ledger.close()
            await barrier(world.store)
            path = managed_ledger_path(TOPIC)
            stored = world.metadata.get(path)
            assert stored is not None
            listed = json.loads(stored.value)
            assert listed["ledgers"][0].pop("appendedBy") == world.now_ms - 10_000 + 1
            world.metadata.put(path, json.dumps(listed).encode(), stored.version)
            world.clock.seconds += 5
            ledger = world.open()
            assert (ledger.age_of(first), ledger.has_recorded(first)) == (5.0, True)
            assert ledger.position_older_than(4) == first < ledger.next_position(first)
            assert ledger.position_older_than(5) < first == ledger.position_older_than(5, inclusive=True)

    asyncio.run(story())


def test_a_run_is_readable_once_it_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            first = ledger.append([b"a", b"b"], lambda _position, _error: None)
            assert ledger.last_position == Position(first.ledger_id, 1)
            assert ledger.last_confirmed_entry == EARLIEST
            assert ledger.entries == ledger.confirmed_in(ledger.ledgers()[0]) == 0
            assert ledger.read_cached(first, 10, 100) == []
            await barrier(world.store)
            assert ledger.last_confirmed_entry == ledger.last_position
            assert ledger.entries == ledger.confirmed_in(ledger.ledgers()[0]) == 2
            assert ledger.read_cached(EARLIEST, 10, 100) == [(first, b"a"), (ledger.last_position, b"b")]
            assert ledger.read_cached(ledger.last_position, 10, 100) == [(ledger.last_position, b"b")]
            assert ledger.read_cached(ledger.next_position(ledger.last_position), 10, 100) == []

    asyncio.run(story())


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
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open(config)
            for _ in range(10):
                ledger.append([entry], lambda _position, _error: None)
                world.clock.seconds += 1
            assert [each.entries for each in ledger.ledgers()] == expected
            assert ledger.size_bytes == 10 * len(entry)
            await barrier(world.store)
            assert ledger.entries == 10
            assert [ledger.confirmed_in(each) for each in ledger.ledgers()] == expected

    asyncio.run(story())


def test_reading_goes_through_the_whole_chain_also_after_reopening(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            written = []
            for number in range(10):
                first = await world.append(ledger, [b"%d" % number, b"-"], b"note %d" % number)
                written += [(first, b"%d" % number), (ledger.last_position, b"-")]
            for again in (ledger, await world.reopen(ledger)):
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
            assert await world.append(again, [b"new"]) > written[-1][0]
            assert again.ledgers()[-1].entries == 1, "a reopened topic begins a new ledger"

    asyncio.run(story())


def test_trim_never_passes_a_cursor_nor_takes_the_current_ledger(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            positions = [await world.append(ledger, [b"x"]) for _ in range(10)]
            for consumed in positions:
                ledger.trim(consumed, world.now_ms, NONE)
                following = ledger.next_position(consumed)
                assert all(ledger.contains(position) for position in positions if position >= following)
                assert positions[-1].ledger_id == ledger.ledgers()[-1].ledger_id
            assert [each.entries for each in ledger.ledgers()] == [2]
            assert ledger.first_position == positions[8]
            await barrier(world.store)
            assert world.store.list() == [positions[8].ledger_id]

    asyncio.run(story())


def test_trim_tells_the_new_first_position(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            positions = [await world.append(ledger, [b"x"]) for _ in range(6)]
            assert ledger.trim(positions[2], world.now_ms, NONE) is None
            assert ledger.trim(positions[3], world.now_ms, NONE) == positions[4]

    asyncio.run(story())


def test_what_is_to_be_remembered_of_trimmed_entries_is_kept_with_the_shorter_list(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            positions = [await world.append(ledger, [b"x"]) for _ in range(10)]
            versions: list[str] = []
            world.metadata.watch("/managed-ledgers", lambda change: versions.append(change.path))
            ledger.trim(positions[8], world.now_ms, NONE, lambda last: {"through": str(last)})
            assert len(versions) == 1, "in one change"
            again = await world.reopen(ledger)
            assert again.properties == {"through": str(positions[7])}
            assert again.first_position == positions[8]

    asyncio.run(story())


def test_retention_keeps_by_time_or_size(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            config = ManagedLedgerConfig(1, 10**9, 0, 10**9)
            ledger = world.open(config)
            mebibyte = b"x" * 1024 * 1024
            for _ in range(5):
                await world.append(ledger, [mebibyte])
            consumed = ledger.last_position
            assert ledger.trim(consumed, world.now_ms, FOR_EVER) is None
            assert ledger.trim(consumed, world.now_ms + MINUTE_MS - 1, (1, -1)) is None
            assert ledger.trim(consumed, world.now_ms, (-1, 5)) is None
            assert ledger.trim(consumed, world.now_ms, (1, 3)) is not None
            assert ledger.size_bytes == 3 * len(mebibyte), "at least the size stays"
            assert ledger.trim(consumed, world.now_ms + MINUTE_MS, (1, -1)) is not None
            assert len(ledger.ledgers()) == 1
            await barrier(world.store)

    asyncio.run(story())


def test_an_idle_topic_is_trimmed_to_nothing_and_remembers_where_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            last = await world.append(ledger, [b"x"])
            assert ledger.trim(last, world.now_ms, NONE) is None
            assert ledger.trim(last, world.now_ms + 10 * MINUTE_MS, NONE) == Position(last.ledger_id, 1)
            await barrier(world.store)
            assert world.store.list() == []
            for again in (ledger, await world.reopen(ledger)):
                assert again.last_confirmed_entry == again.last_position == last
                assert not again.contains(last)
                assert again.count(EARLIEST, last) == 0
                assert again.previous_position(again.first_position) == last
            assert await world.append(again, [b"y"]) > last

    asyncio.run(story())


def test_properties_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            ledger.set_property("origin", "lga")
            assert (await world.reopen(ledger)).properties == {"origin": "lga"}

    asyncio.run(story())


def test_a_deleted_topic_is_gone_at_once_and_can_be_created_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            before = [await world.append(ledger, [b"x"]) for _ in range(6)]
            ledger.delete()
            assert not Topics(world.metadata).exists(TOPIC)
            again = world.open()
            assert again.entries == 0
            after = await world.append(again, [b"y"])
            assert after > before[-1]
            assert world.store.list() == [after.ledger_id]
            assert world.metadata.children("/deleting-ledgers") == []

    asyncio.run(story())


def test_ledgers_whose_deletion_a_crash_interrupted_are_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            await world.append(ledger, [b"x"])
            await world.append(ledger, [b"x"] * 4)
            with monkeypatch.context() as crash:
                crash.setattr(world.store, "delete", lambda _: None)
                crash.setattr(world.store, "barrier", lambda _: None)
                ledger.delete()
            assert world.store.list() != []
            finish_deletions(world.store, world.metadata)
            await barrier(world.store)
            assert world.store.list() == []
            assert world.metadata.children("/deleting-ledgers") == []

    asyncio.run(story())


def test_what_the_store_has_beyond_the_list_counts_and_what_it_lacks_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            await world.append(ledger, [b"x"])
            last = await world.append(ledger, [b"x"])
            crashed = world.open()  # the list still says that nothing was durable
            assert crashed.last_confirmed_entry == last
            crashed.set_property("key", "value")  # writes a list that says how much was
            world.store.delete(last.ledger_id)
            with pytest.raises(DataLossError, match=f"ends at {last.ledger_id}:-1, entries up to {last} were durable"):
                world.open()
            fenced: list[StorageError] = []
            ledger.observe_fencing(fenced.append)
            for _ in range(2):
                with pytest.raises(ManagedLedgerFencedError, match="another writer has its list of ledgers"):
                    ledger.set_property("key", "from an owner that lost the topic")
            assert len(fenced) == 1

    asyncio.run(story())


def test_a_ledger_that_was_listed_but_never_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open()
            with monkeypatch.context() as crash:
                crash.setattr(world.store, "append", lambda *_, **__: 0)
                ledger.append([b"lost"], lambda _position, _error: None)
            again = world.open()
            assert again.entries == 0
            assert again.last_confirmed_entry == EARLIEST

    asyncio.run(story())


def test_a_clock_that_went_back_does_not_keep_a_ledger_open(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            ledger = world.open(ManagedLedgerConfig(2, 10**6, 60_000, 10**9))
            world.clock.seconds += 10**9
            await world.append(ledger, [b"a", b"b"])
            world.clock.seconds -= 10**9
            await world.append(ledger, [b"c"])
            assert [each.entries for each in ledger.ledgers()] == [3], "not younger than the minimum"
            world.clock.seconds += 60
            await world.append(ledger, [b"d"])
            assert [each.entries for each in ledger.ledgers()] == [3, 1]

    asyncio.run(story())


def test_a_run_is_written_once_its_ledger_is_listed(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path, serving()) as world:
            ledger, reports = world.open(), list[tuple[Position, StorageError | None]]()
            first = ledger.append([b"a"], lambda *report: reports.append(report))
            second = ledger.append([b"b", b"c"], lambda *report: reports.append(report))
            assert second == (first.ledger_id, 1)
            assert (ledger.last_position, ledger.entries) == ((first.ledger_id, 2), 0)
            await barrier(world.store)
            assert world.store.length(first.ledger_id) == 0
            assert ledger.is_being_listed
            await Commit(world.metadata, [])
            assert not ledger.is_being_listed
            await barrier(world.store)
            assert reports == [(first, None), (second, None)]

    asyncio.run(story())


def test_entries_for_a_full_ledger_wait_until_the_next_one_is_listed(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path, serving()) as world:
            ledger = world.open()
            full = ledger.append([b"a"] * 4, lambda *_: None)
            await Commit(world.metadata, [])
            await barrier(world.store)
            following = [ledger.append([b"b"], lambda *_: None) for _ in range(3)]
            assert len({position.ledger_id for position in following}) == 1
            assert following[0].ledger_id > full.ledger_id
            assert ledger.last_confirmed_entry == Position(full.ledger_id, 3), "nothing is written before the list"
            await Commit(world.metadata, [])
            await barrier(world.store)
            assert ledger.last_confirmed_entry == following[-1]
            assert ledger.next_position(Position(full.ledger_id, 3)) == following[0]
            assert (await world.reopen(ledger)).entries == 7

    asyncio.run(story())


def test_runs_that_wait_for_a_ledger_fail_if_it_cannot_be_listed(tmp_path: Path) -> None:
    async def story() -> None:
        metadata = serving()
        async with a_world(tmp_path, metadata) as world:
            ledger, reports = world.open(), list[StorageError | None]()
            metadata.fail_writes = True
            for _ in range(2):
                ledger.append([b"a"], lambda _, error: reports.append(error))
            with pytest.raises(DiskFullError):
                await Commit(world.metadata, [])
            assert [type(each) for each in reports] == [DiskFullError, DiskFullError]
            assert not ledger.ledgers()
            assert ledger.last_position == EARLIEST
            metadata.fail_writes = False
            ledger.append([b"b"], lambda _, error: reports.append(error))
            await Commit(world.metadata, [])
            await barrier(world.store)
            assert reports[2:] == [None]
            assert (await world.reopen(ledger)).entries == 1

    asyncio.run(story())


def test_a_full_ledger_takes_nothing_if_the_next_one_cannot_be_listed(tmp_path: Path) -> None:
    async def story() -> None:
        metadata = serving()
        async with a_world(tmp_path, metadata) as world:
            ledger, reports = world.open(), list[StorageError | None]()
            first = ledger.append([b"a"] * 4, lambda *_: None)
            await Commit(world.metadata, [])
            metadata.fail_writes = True
            ledger.append([b"b"], lambda _, error: reports.append(error))
            with pytest.raises(DiskFullError):
                await Commit(world.metadata, [])
            assert [type(each) for each in reports] == [DiskFullError]
            assert ledger.last_position == Position(first.ledger_id, 3)
            metadata.fail_writes = False
            following = ledger.append([b"c"], lambda _, error: reports.append(error))
            await Commit(world.metadata, [])
            await barrier(world.store)
            assert reports[1:] == [None]
            assert following.ledger_id > first.ledger_id
            assert (await world.reopen(ledger)).entries == 5

    asyncio.run(story())


def test_a_topic_that_cannot_be_stored_is_fenced(tmp_path: Path) -> None:
    async def story() -> None:
        metadata = serving()
        async with a_world(tmp_path, metadata) as world:
            ledger, fenced = world.open(), list[StorageError]()
            ledger.observe_fencing(fenced.append)
            metadata.fail_writes = True
            ledger.create()
            with pytest.raises(DiskFullError):
                await Commit(world.metadata, [])
            assert fenced == [ledger.failure]
            metadata.fail_writes = False
            ledger.close()
            assert not Topics(world.metadata).exists(TOPIC)

    asyncio.run(story())


def test_a_barrier_keeps_its_place_among_runs_that_wait_for_their_ledger(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path, serving()) as world:
            ledger, told = world.open(), list[str]()
            ledger.append([b"a"], lambda *_: told.append("first"))
            ledger.barrier(lambda _: told.append("barrier"))
            ledger.append([b"b"], lambda *_: told.append("second"))
            await Commit(world.metadata, [])
            ledger.barrier(lambda _: told.append("last"))
            await barrier(world.store)
            assert told == ["first", "barrier", "second", "last"]

    asyncio.run(story())


def serving() -> FaultyMetadataStore:
    """A metadata store that reports in later turns of the loop that runs."""
    metadata = FaultyMetadataStore(FakeClock())
    metadata.commit_s = 0.05
    metadata.serve(asyncio.get_running_loop())
    return metadata
