from __future__ import annotations

import asyncio
import errno
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, StorageError, TooManyOpenFilesError
from magnetar.base.names import TopicName
from magnetar.base.real import SystemClock
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.ledger.segments.check import check
from magnetar.ledger.shared_log.log import Log
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.ledger.support import append, barrier, opened, read_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.metadata.cached import Transaction

DIRECTORY = Path("/log")
OPTIONS = LocalStoreOptions(segment_bytes=2000)


def entry(number: int) -> bytes:
    return b"entry %d " % number * 10


def test_one_sync_serves_a_whole_group() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, LocalStoreOptions(), disk) as store:
            ledger_id = store.create()
            before = disk.syncs
            for number in range(1000):
                store.append(ledger_id, [entry(number)], lambda _: None)
            await barrier(store)
            assert disk.syncs - before < 100

    asyncio.run(scenario())


def test_nothing_is_reported_before_it_is_synced() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, LocalStoreOptions(), disk) as store:
            ledger_id = store.create()
            (node,) = disk.nodes.values()
            for number in range(50):
                await append(store, ledger_id, [entry(number)])
                assert entry(number) in node.synced

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["fail_syncs", "fail_writes"])
def test_after_a_failed_sync_or_write_everything_fails_for_ever(kind: str) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        await store.open()
        ledger_id = store.create()
        await append(store, ledger_id, [entry(0)])
        setattr(disk, kind, True)
        order: list[tuple[int, type[StorageError] | None]] = []

        def report(number: int) -> Callable[[StorageError | None], None]:
            return lambda error: order.append((number, type(error) if error else None))

        for number in range(1, 6):
            store.append(ledger_id, [entry(number)], report(number))
        assert isinstance(await barrier(store), StorageError)
        assert order == [(number, StorageError) for number in range(1, 6)]
        assert not store.state.healthy
        assert "segment-0000000000000001.log" in (store.state.failure or "")
        disk.fail_syncs = disk.fail_writes = False
        with pytest.raises(StorageError):
            await append(store, ledger_id, [entry(6)])
        assert store.length(ledger_id) == 1
        assert await read_all(store, ledger_id) == [entry(0)], "what was durable can still be read"
        await store.close()
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            found = await read_all(store, ledger_id)
            assert found == [entry(number) for number in range(len(found))]
            assert found

    asyncio.run(scenario())


def test_a_full_disk_fails_what_was_asked_and_nothing_that_comes_later() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            one, two = store.create(), store.create()
            await append(store, one, [entry(0)])
            await append(store, two, [entry(0)])
            for room in range(0, 300, 7):
                disk.room = room
                first = store.length(one)
                reports: list[StorageError | None] = []
                for number in range(4):
                    assert store.append(one, [entry(number)], reports.append) == first + number
                    store.append(two, [entry(number) * 5], reports.append)
                await barrier(store)
                kept = reports.count(None)
                assert [type(error) for error in reports[kept:]] == [DiskFullError] * (8 - kept), "none after a failed"
                assert store.state.healthy
                assert store.length(one) == first + (kept + 1) // 2
                assert check(LocalMedium(DIRECTORY, disk)).torn_bytes == 0, "cut back"
                disk.room = None
                await append(store, one, [entry(9)])
            length_one, length_two = store.length(one), store.length(two)
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            assert (store.length(one), store.length(two)) == (length_one, length_two)
            assert len(await read_all(store, one)) == length_one

    asyncio.run(scenario())


def test_a_segment_for_which_no_file_can_be_opened_is_made_later() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        stored: list[bytes] = []
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            ledger_id = store.create()
            refused = 0
            for number in range(200):
                disk.fail_opens = number % 3 == 0
                reports: list[StorageError | None] = []
                store.append(ledger_id, [entry(number)], reports.append)
                await barrier(store)
                disk.fail_opens = False
                assert store.state.healthy
                if reports == [None]:
                    stored.append(entry(number))
                else:
                    assert [type(error) for error in reports] == [TooManyOpenFilesError]
                    assert "ulimit -n" in str(reports[0])
                    refused += 1
            assert refused, "some segment ended just then"
            assert len(store.segments()) > 2
            assert await read_all(store, ledger_id) == stored
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            assert await read_all(store, ledger_id) == stored

    asyncio.run(scenario())


def test_a_full_disk_delays_what_changes_ledgers_but_does_not_forget_it() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            deleted, sealed, trimmed = (store.create() for _ in range(3))
            for ledger_id in (deleted, sealed, trimmed):
                await append(store, ledger_id, [entry(0), entry(1)])
            disk.room = 0
            store.delete(deleted)
            store.seal(sealed)
            store.trim(trimmed, 1)
            assert isinstance(await barrier(store), DiskFullError)
            disk.room = None
            assert await barrier(store) is None
            abandoned = disk.crash(random.Random(1))
        async with opened(DIRECTORY, OPTIONS, abandoned) as store:
            assert store.list() == [sealed, trimmed]
            with pytest.raises(StorageError, match="sealed"):
                store.append(sealed, [b"x"], print)
            with pytest.raises(StorageError, match="trimmed"):
                await store.read(trimmed, 0, 1, 1)

    asyncio.run(scenario())


def test_space_comes_back_when_ledgers_are_deleted_on_a_full_disk() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            old = store.create()
            for number in range(100):
                await append(store, old, [entry(number)])
            current = store.create()
            await append(store, current, [entry(0)])
            disk.room = 100  # less than the entry needs, more than the deletion needs
            with pytest.raises(DiskFullError):
                await append(store, current, [entry(0) * 10])
            store.delete(old)
            assert await barrier(store) is None
            await barrier(store)
            assert disk.room > 5000
            await append(store, current, [entry(0) * 10])

    asyncio.run(scenario())


def test_opening_on_a_full_disk_says_so() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        disk.room = 10
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        with pytest.raises(DiskFullError, match="No space left"):
            await store.open()
        disk.room = None
        async with opened(DIRECTORY, OPTIONS, disk):
            pass

    asyncio.run(scenario())


def test_a_topic_takes_back_what_a_full_disk_refused() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            topic = TopicName.parse("persistent://nyc/flights/departures")
            config = ManagedLedgerConfig(max_entries_per_ledger=3, min_rollover_ms=0)
            metadata, clock = MemoryMetadataStore(SystemClock()), SystemClock()
            ledger = ManagedLedger.open(store, metadata, topic, config, clock)
            ledger.append([entry(0)], lambda _position, _error: None)
            await barrier(store)
            last = ledger.last_position
            disk.room = 0
            reports: list[StorageError | None] = []
            for number in range(1, 6):  # also in the next ledger
                ledger.append([entry(number)], lambda _, error: reports.append(error))
            assert sum(each.entries for each in ledger.ledgers()) == 6
            await barrier(store)
            assert [type(error) for error in reports] == [DiskFullError] * 5
            assert sum(each.entries for each in ledger.ledgers()) == ledger.entries == 1
            assert ledger.size_bytes == len(entry(0))
            assert ledger.last_position == ledger.last_confirmed_entry == last
            disk.room = None
            position = ledger.append([entry(1)], lambda _position, _error: None)
            await barrier(store)
            assert ledger.next_position(last) == position == ledger.last_confirmed_entry
            assert await ledger.read(last, 5, 1000) == [(last, entry(0))]
            assert await ledger.read(position, 5, 1000) == [(position, entry(1))]
            ledger.close()
            await barrier(store)
            assert ManagedLedger.open(store, metadata, topic, config, clock).entries == 2

    asyncio.run(scenario())


def test_a_bug_under_the_log_fails_the_store_instead_of_keeping_everybody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        store = LocalLedgerStore(DIRECTORY, FaultyDisk(), asyncio.get_running_loop(), OPTIONS)
        await store.open()
        ledger_id = store.create()
        with monkeypatch.context() as patch:
            patch.setattr(Log, "_apply_run", lambda *_: 1 / 0)
            with pytest.raises(StorageError, match="ZeroDivisionError"):
                await append(store, ledger_id, [entry(0)])
        assert not store.state.healthy
        await store.close()

    asyncio.run(scenario())


def test_on_a_full_disk_what_is_urgent_goes_on_in_the_room_held_back() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        options = LocalStoreOptions(segment_bytes=2000, reserve_bytes=1000, low_water_bytes=3000)
        async with opened(DIRECTORY, options, disk) as store:
            log, cursor = store.create(), store.create()
            await append(store, log, [entry(0)])
            disk.room = 10
            reports: list[tuple[str, StorageError | None]] = []

            def ask(ledger_id: int, number: int, *, urgent: bool) -> None:
                def report(error: StorageError | None) -> None:
                    reports.append((f"{ledger_id}:{number}", error))

                store.append(ledger_id, [entry(number)], report, urgent=urgent)

            ask(log, 1, urgent=False)
            ask(cursor, 0, urgent=True)
            store.seal(log)
            ask(cursor, 1, urgent=True)
            await barrier(store)
            await barrier(store)
            outcome = {name: type(error) for name, error in reports}
            assert outcome == {f"{log}:1": DiskFullError, f"{cursor}:0": type(None), f"{cursor}:1": type(None)}
            assert await read_all(store, cursor) == [entry(0), entry(1)]
            later = store.create()
            with pytest.raises(DiskFullError, match="No space left"):
                await refused(store, later)
            disk.room = 100_000
            await store.look_at_space()
            assert store.state.refusal is None
            await append(store, later, [entry(2)])
        async with opened(DIRECTORY, options, disk) as store:
            assert await read_all(store, cursor) == [entry(0), entry(1)]
            assert await read_all(store, log) == [entry(0)]

    asyncio.run(scenario())


async def refused(store: LocalLedgerStore, ledger_id: int) -> None:
    reported: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    store.append(ledger_id, [entry(9)], reported.set_result, urgent=False)
    error = await reported
    if error is not None:
        raise error


def test_a_store_opens_on_a_full_disk_with_what_was_held_back() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        options = LocalStoreOptions(reserve_bytes=1000, low_water_bytes=3000)
        async with opened(DIRECTORY, options, disk) as store:
            ledger_id = store.create()
            await append(store, ledger_id, [entry(0)])
        disk.room = 0
        async with opened(DIRECTORY, options, disk) as store:
            assert await read_all(store, ledger_id) == [entry(0)]
            assert isinstance(store.state.refusal, DiskFullError)

    asyncio.run(scenario())


def test_a_ledger_that_cannot_be_listed_takes_no_entries() -> None:
    class FullMetadata(MemoryMetadataStore):
        full = False

        def _submit(self, transaction: Transaction) -> None:
            if self.full:
                self._failed(DiskFullError("no room"))
            else:
                super()._submit(transaction)

    async def scenario() -> None:
        disk, clock = FaultyDisk(), SystemClock()
        metadata = FullMetadata(clock)
        config = ManagedLedgerConfig(2, 1 << 30, 0, 1 << 40)
        name = TopicName.parse("persistent://public/default/t")
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            log = ManagedLedger.open(store, metadata, name, config, clock)
            log.append([entry(0), entry(1)], lambda _position, _error: None)
            metadata.full = True
            with pytest.raises(DiskFullError):
                log.append([entry(2)], lambda _position, _error: None)
            metadata.full = False
            log.append([entry(3)], lambda _position, _error: None)
            await barrier(store)
            again = ManagedLedger.open(store, metadata, name, config, clock)
            assert again.entries == log.entries == 3

    asyncio.run(scenario())


def break_disk(disk: FaultyDisk, fault: str) -> None:
    match fault:
        case "a write that ends in the middle":
            disk.tear_write_at = 40
        case "no room at the sync":
            disk.fail_syncs, disk.sync_errno = True, errno.ENOSPC
        case "a file that cannot be made":
            disk.fail_opens, disk.open_errno = True, errno.EACCES
        case "a directory that cannot be synced":
            disk.fail_directory_syncs = True


@pytest.mark.parametrize(
    "fault",
    [
        "a write that ends in the middle",
        "no room at the sync",
        "a file that cannot be made",
        "a directory that cannot be synced",
    ],
)
def test_whatever_fails_nothing_is_confirmed_that_is_not_there_afterwards(fault: str) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), LocalStoreOptions(segment_bytes=400))
        await store.open()
        ledger_id = store.create()
        await append(store, ledger_id, [entry(0)])
        break_disk(disk, fault)
        confirmed = 1
        for number in range(1, 10):  # more than fit into a segment, so that a new one is created
            try:
                await append(store, ledger_id, [entry(number)])
            except StorageError:
                break
            confirmed += 1
        assert confirmed < 10
        assert not store.state.healthy, "what reached the disk is unknown"
        with pytest.raises(StorageError):
            await append(store, ledger_id, [entry(99)])
        await store.close()
        async with opened(DIRECTORY, OPTIONS, repaired(disk)) as store:
            found = await read_all(store, ledger_id)
            assert found[:confirmed] == [entry(number) for number in range(confirmed)]
            assert len(found) <= confirmed + 1
            await append(store, ledger_id, [entry(100)])

    asyncio.run(scenario())


def repaired(disk: FaultyDisk) -> FaultyDisk:
    """Return the disk after a loss of power, without faults."""
    return disk.crash(random.Random(1))


def test_a_segment_that_cannot_be_removed_is_removed_later() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        options = LocalStoreOptions(segment_bytes=400)
        async with opened(DIRECTORY, options, disk) as store:
            first, second = store.create(), store.create()
            for number in range(10):
                await append(store, first, [entry(number)])
            disk.fail_removes = True
            store.delete(first)
            for number in range(10):
                await append(store, second, [entry(number)])
            assert store.state.healthy
            files = len(disk.nodes)
        disk.fail_removes = False
        async with opened(DIRECTORY, options, disk) as store:
            assert len(disk.nodes) < files
            assert await read_all(store, second) == [entry(number) for number in range(10)]

    asyncio.run(scenario())


def room_of(disk: FaultyDisk) -> list[int]:
    """Return the reserved bytes of each segment, the oldest first."""
    return [disk.nodes[path].reserved for path in sorted(disk.nodes) if path.name.startswith("segment")]


async def fill(disk: FaultyDisk) -> None:
    """Write some three segments."""
    async with opened(DIRECTORY, OPTIONS, disk) as store:
        ledger_id = store.create()
        for number in range(60):
            await append(store, ledger_id, [entry(number)])
        assert await read_all(store, ledger_id) == [entry(number) for number in range(60)]


def test_a_segment_has_its_room_set_aside_while_it_is_written_to() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            ledger_id = store.create()
            for number in range(60):
                await append(store, ledger_id, [entry(number)])
            *sealed, open_now = room_of(disk)
            assert (set(sealed), open_now) == ({0}, OPTIONS.segment_bytes)
        assert set(room_of(disk)) == {0}

    asyncio.run(scenario())


def test_a_disk_that_sets_no_room_aside_will_do() -> None:
    disk = FaultyDisk()
    disk.fail_to_set_aside = True
    asyncio.run(fill(disk))
    assert set(room_of(disk)) == {0}


def test_no_room_is_set_aside_that_is_much_of_what_is_free() -> None:
    disk = FaultyDisk()
    disk.room = 8 * OPTIONS.segment_bytes + 500  # enough for the first segment only
    asyncio.run(fill(disk))
    assert check(LocalMedium(DIRECTORY, disk)).intact
