from __future__ import annotations

import asyncio
import random
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.base.errors import ConfigurationError, CorruptionError, DiskFullError, StorageError
from magnetar.base.life import Life, first_ledger_id
from magnetar.base.real import SystemFiles
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.medium.local import LocalMedium, segment_path
from magnetar.ledger.medium.space import RESERVE_NAME
from magnetar.ledger.read_only import ReadOnlyLedgerStore
from magnetar.ledger.segments.segment import SEGMENT_HEADER_SIZE
from magnetar.ledger.shared_log.committer import Committer
from magnetar.ledger.shared_log.log import Log, with_entries
from magnetar.ledger.shared_log.notes import FOREIGN_NAME
from magnetar.ledger.store import Run, StoreState
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.ledger.memory_medium import turn
from tests.unit.ledger.support import SMALL, append, barrier, opened, read_all, runs_of


def entry(number: int) -> bytes:
    return b"entry %d" % number


def test_entries_of_many_ledgers_read_back_in_order_also_after_reopening(tmp_path: Path) -> None:
    async def scenario() -> None:
        expected: dict[int, list[bytes]] = {}
        async with opened(tmp_path) as store:
            ledgers = [store.create() for _ in range(3)]
            for number in range(120):
                ledger_id = ledgers[number % 3]
                entries = [entry(number)] * (number % 4 + 1)
                known = expected.setdefault(ledger_id, [])
                assert await append(store, ledger_id, entries) == len(known)
                known += entries
            for ledger_id, entries in expected.items():
                assert await read_all(store, ledger_id) == entries
            assert len(store.segments()) > 3
        async with opened(tmp_path) as store:
            for ledger_id, entries in expected.items():
                assert await read_all(store, ledger_id) == entries
                assert store.length(ledger_id) == len(entries)
                assert store.size_bytes(ledger_id) == sum(map(len, entries))

    asyncio.run(scenario())


@pytest.mark.parametrize("sync", [True, False])
def test_ids_that_a_log_lost_stay_unknown_to_it_in_later_runs(tmp_path: Path, *, sync: bool) -> None:
    async def scenario() -> None:
        lost: list[int] = []
        kept: list[int] = []

        async def check(named: int) -> None:
            async with opened(tmp_path, replace(SMALL, sync=sync, identity="one", named_ledger_id=named)) as store:
                assert [store.ids.has_given(each) for each in kept] == [True] * len(kept)
                assert [store.ids.has_given(each) for each in lost] == [False] * len(lost)
                kept.append(store.create())
                await append(store, kept[-1], [entry(1)])
                read_only = ReadOnlyLedgerStore(LocalMedium(tmp_path, SystemFiles()), store._log.index)
                assert [read_only.ids.has_given(each) for each in kept] == [True] * len(kept)
                assert [read_only.ids.has_given(each) for each in lost] == [False] * len(lost)

        await check(0)
        for jump in (100, 1000):
            lost += range(kept[-1] + 50, kept[-1] + jump)
            await check(lost[-1])
            await check(lost[-1])
            await check(0)

    asyncio.run(scenario())


def test_a_damaged_note_of_unknown_ids_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path):
            pass
        (tmp_path / FOREIGN_NAME).write_bytes(b"5")
        with pytest.raises(CorruptionError, match=FOREIGN_NAME):
            await LocalLedgerStore(tmp_path, SystemFiles(), asyncio.get_running_loop(), SMALL).open()

    asyncio.run(scenario())


@pytest.mark.parametrize(("text", "annotation"), [(b"x" * 300, b""), (b"", b"x" * 300)])
def test_groups_of_entries_and_of_records_of_cursors_are_bounded(
    tmp_path: Path, text: bytes, annotation: bytes
) -> None:
    log = Log(LocalMedium(tmp_path, SystemFiles()), 1 << 20, sync=True)
    committer = Committer(log, 1000, lambda *_: None)
    for number in range(10):
        committer.submit(with_entries(1, number, [text], annotation, lambda _: None, urgent=True))
    committer._stopping = True  # it waits for no more
    assert [len(committer._take() or ()) for _ in range(3)] == [4, 4, 2]


def test_reports_come_in_the_order_of_appends_and_barriers_over_all_ledgers(tmp_path: Path) -> None:
    async def scenario() -> None:
        reports: list[int] = []
        async with opened(tmp_path) as store:
            one, two = store.create(), store.create()
            for number in range(0, 300, 3):
                store.append(one, [entry(number)], lambda _, n=number: reports.append(n))  # type: ignore[misc]
                store.barrier(lambda _, n=number + 1: reports.append(n))  # type: ignore[misc]
                store.append(two, [entry(number)] * 2, lambda _, n=number + 2: reports.append(n))  # type: ignore[misc]
            assert reports == [], "nothing is reported from inside the call"
            await barrier(store)
        assert reports == list(range(300))

    asyncio.run(scenario())


def test_reports_come_on_the_event_loops_thread_after_entries_are_readable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            ledger_id = store.create()
            seen: list[list[bytes] | None] = []
            loop = asyncio.get_running_loop()

            def report(_: StorageError | None) -> None:
                assert asyncio.get_running_loop() is loop
                seen.append(store.read_cached(ledger_id, 0, 9, 99))

            store.append(ledger_id, [b"a", b"b"], report)
            assert store.read_cached(ledger_id, 0, 9, 99) is None, "not durable yet"
            await barrier(store)
            assert seen == [[b"a", b"b"]]

    asyncio.run(scenario())


def test_one_owners_exception_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        contexts: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))

        def broken(_: StorageError | None) -> None:
            raise ValueError

        async with opened(tmp_path) as store:
            ledger_id = store.create()
            store.append(ledger_id, [b"a"], broken)
            assert await append(store, ledger_id, [b"b"]) == 1
        assert [type(context["exception"]) for context in contexts] == [ValueError]

    asyncio.run(scenario())


def test_runs_keep_their_annotations(tmp_path: Path) -> None:
    async def scenario() -> None:
        runs = [Run(2 * number, 2, b"note %d" % number if number % 2 else b"") for number in range(30)]
        async with opened(tmp_path) as store:
            ledger_id, other = store.create(), store.create()
            for run in runs:
                await append(store, ledger_id, [b"x" * 30] * run.count, run.annotation)
                await append(store, other, [b"y"])
            assert await runs_of(store, ledger_id) == runs
        async with opened(tmp_path) as store:
            assert await runs_of(store, ledger_id) == runs
            store.trim(ledger_id, 21)
            await barrier(store)
            assert await runs_of(store, ledger_id) == runs[10:], "a run stays while one of its entries does"

    asyncio.run(scenario())


def test_ids_grow_for_ever_even_if_the_newest_ledgers_are_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        newest = 0
        for _ in range(4):
            async with opened(tmp_path) as store:
                for _ in range(3):
                    ledger_id = store.create()
                    assert ledger_id > newest
                    newest = ledger_id
                    await append(store, ledger_id, [b"a"])
                    store.delete(ledger_id)

    asyncio.run(scenario())


def test_a_clean_restart_skips_no_id_and_a_crash_at_most_a_block(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            first = store.create()
        async with opened(tmp_path) as store:
            assert store.create() == first + 1
            await barrier(store)
            abandoned = tmp_path / "as-if-killed"
            abandoned.mkdir()
            for name in SystemFiles().list(tmp_path):
                if name.endswith(".log"):
                    shutil.copy(tmp_path / name, abandoned)
        async with opened(abandoned) as store:
            assert first + 1 < store.create() <= first + 1 + 3 * SMALL.ledger_id_block, "the second block has two sizes"

    asyncio.run(scenario())


def test_ids_are_given_only_as_far_as_they_are_durably_reserved() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(Path("/log"), SMALL, disk) as store:
            with disk.lock:  # nothing becomes durable
                for _ in range(SMALL.ledger_id_block):
                    store.create()
                with pytest.raises(StorageError, match="used up"):
                    store.create()
            await barrier(store)
            store.create()

    asyncio.run(scenario())


def test_higher_ids_are_given_as_soon_as_they_are_reserved_and_in_later_runs() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(Path("/log"), SMALL, disk) as store:
            first = store.create()
            with disk.lock:  # nothing becomes durable
                store.ids.begin_at(1_000)
                assert store.create() == first + 1
            await barrier(store)
            assert [store.create(), store.create()] == [1_000, 1_001]
            store.ids.begin_at(500)
            await barrier(store)
            assert store.create() == 1_002
            for _ in range(3 * SMALL.ledger_id_block):
                store.create()
                await barrier(store)
            store.ids.begin_at(9_000)
            await barrier(store)
            abandoned = disk.crash(random.Random(1))
        async with opened(Path("/log"), SMALL, abandoned) as store:
            assert store.create() >= 9_000, "the reservation was durable"

    asyncio.run(scenario())


def test_each_group_is_timed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:

            def groups() -> int:
                return store.commit_times.buckets()[-1][1]

            ledger_id = store.create()
            await barrier(store)
            before = groups()
            for number in range(5):
                await append(store, ledger_id, [entry(number)])
            assert groups() - before == 5
            assert 0 < store.commit_times.sum_s < 60

    asyncio.run(scenario())


def test_starts_that_use_no_id_skip_fewer_than_the_milliseconds_they_take() -> None:
    async def scenario() -> None:
        disk, starts = FaultyDisk(), 50
        for _ in range(starts):
            store = LocalLedgerStore(Path("/log"), disk, asyncio.get_running_loop(), LocalStoreOptions())
            await store.open()
            abandoned = disk.crash(random.Random(1))
            await store.close()
            disk = abandoned
        async with opened(Path("/log"), LocalStoreOptions(), disk) as store:
            assert store.create() <= starts * 512 + 1

    asyncio.run(scenario())


def test_the_faster_ids_are_used_the_more_are_reserved() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(Path("/log"), LocalStoreOptions(), disk) as store:
            for _ in range(100):
                for _ in range(400):
                    store.create()
                await barrier(store)
            commits = disk.syncs
            for _ in range(50_000):
                store.create()
            await barrier(store)
            assert disk.syncs - commits <= 2

    asyncio.run(scenario())


def test_trimmed_and_deleted_entries_give_their_segments_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            kept, trimmed, deleted = (store.create() for _ in range(3))
            await append(store, kept, [b"k"])
            first = store.segments()[0]
            for number in range(60):
                await append(store, trimmed, [entry(number) * 5])
                await append(store, deleted, [entry(number) * 5])
            before = store.segments()
            assert len(before) > 4
            assert store.pinned_by(first) == [kept, trimmed, deleted]
            store.trim(trimmed, 60)
            store.delete(deleted)
            await barrier(store)
            await barrier(store)  # segments are removed after the group is reported
            after = store.segments()
            assert after[0] == first, "one entry is enough to keep a segment"
            assert len(after) <= 3, "the others go, but for the newest sealed one and the open one"
            assert store.pinned_by(first) == [kept]
            assert store.oldest_segment_of(kept) == first
            assert store.oldest_segment_of(trimmed) is None
            assert len(SystemFiles().list(tmp_path)) == len(after)
            assert await append(store, trimmed, [b"next"]) == 60
            with pytest.raises(StorageError, match="trimmed"):
                await store.read(trimmed, 0, 1, 1)
            with pytest.raises(StorageError, match="does not exist"):
                await store.read(deleted, 0, 1, 1)
        async with opened(tmp_path) as store:
            assert store.list() == [kept, trimmed]
            assert await read_all(store, kept) == [b"k"]
            assert await read_all(store, trimmed, 60) == [b"next"]
            assert store.length(trimmed) == 61

    asyncio.run(scenario())


def test_trimmed_entries_of_the_newest_segment_need_no_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = replace(SMALL, segment_bytes=1 << 20)
        async with opened(tmp_path, options) as store:
            ledger_id = store.create()
            for number in range(100):
                await append(store, ledger_id, [b""], entry(number))
                if number % 10 == 9:
                    store.trim(ledger_id, number - 2)
                    await barrier(store)
                    assert [run.first_entry_id for run in await runs_of(store, ledger_id)] == [
                        number - 2,
                        number - 1,
                        number,
                    ]
                    extent = store._log.index.ledgers[ledger_id].extents[0]
                    assert extent.table is not None
                    assert len(extent.table.firsts) == 3
            with pytest.raises(StorageError, match="trimmed"):
                await store.read(ledger_id, 96, 1, 1)
            assert await store.read(ledger_id, 97, 9, 9) == [b""] * 3
        for _ in range(2):  # sealed, and then with a newer segment after it
            async with opened(tmp_path, options) as store:
                assert [(run.first_entry_id, run.annotation) for run in await runs_of(store, ledger_id)] == [
                    (number, entry(number)) for number in (97, 98, 99)
                ]
                assert store.length(ledger_id) == 100
                await append(store, store.create(), [b"more"])

    asyncio.run(scenario())


def test_tables_of_sealed_segments_stay_in_memory_only_up_to_their_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = replace(SMALL, table_cache_bytes=4000)
        async with opened(tmp_path, options) as store:
            ledger_ids = [store.create() for _ in range(3)]
            for number in range(60):
                await append(store, ledger_ids[number % 3], [entry(number)], b"annotation" * 10)
            for ledger_id in ledger_ids:
                assert sum(run.count for run in await runs_of(store, ledger_id)) == 20
            tables = store._reader._tables.values()
            assert tables
            assert sum(table.memory_bytes for table in tables) == store._reader.cached_bytes <= 4000

    asyncio.run(scenario())


def test_a_sealed_ledger_takes_no_more_also_after_reopening(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            ledger_id = store.create()
            await append(store, ledger_id, [b"a"])
            store.seal(ledger_id)
            store.seal(ledger_id)
            with pytest.raises(StorageError, match="sealed"):
                store.append(ledger_id, [b"b"], print)
        async with opened(tmp_path) as store:
            with pytest.raises(StorageError, match="sealed"):
                store.append(ledger_id, [b"b"], print)
            with pytest.raises(StorageError, match="does not exist"):
                store.append(ledger_id + 100, [b"b"], print)

    asyncio.run(scenario())


def test_the_ids_of_a_later_life_are_above_those_of_an_earlier_one(tmp_path: Path) -> None:
    async def given(directory: str, now: float) -> int:
        options = LocalStoreOptions(first_ledger_id=first_ledger_id(now))
        async with opened(tmp_path / directory, options) as store:
            for _ in range(100):
                last = store.create()
        return last

    async def scenario() -> None:
        before = await given("disk", now=1_700_000_000.0)
        assert before < await given("disk", now=1_700_000_000.0), "an old store goes on where it was"
        assert before < await given("new disk", now=1_700_000_001.0)

    asyncio.run(scenario())


def test_without_sync_everything_works_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = LocalStoreOptions(sync=False, segment_bytes=1000)
        async with opened(tmp_path, options) as store:
            ledger_id = store.create()
            for number in range(50):
                await append(store, ledger_id, [entry(number)])
        async with opened(tmp_path, options) as store:
            assert await read_all(store, ledger_id) == [entry(number) for number in range(50)]

    asyncio.run(scenario())


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            ledger_id = store.create()
        assert not store.state.healthy
        with pytest.raises(StorageError, match="closed"):
            await append(store, ledger_id, [b"late"])

    asyncio.run(scenario())


def test_pending_appends_are_durable_when_close_returns(tmp_path: Path) -> None:
    async def scenario() -> None:
        reports: list[StorageError | None] = []
        async with opened(tmp_path) as store:
            ledger_id = store.create()
            for number in range(100):
                store.append(ledger_id, [entry(number)], reports.append)
        assert reports == [None] * 100
        async with opened(tmp_path) as store:
            assert store.length(ledger_id) == 100

    asyncio.run(scenario())


@pytest.mark.parametrize("segment_bytes", [0, 2**31])
def test_impossible_segment_sizes_are_refused(segment_bytes: int) -> None:
    with pytest.raises(ConfigurationError, match="segment_bytes"):
        LocalStoreOptions(segment_bytes=segment_bytes)


def test_a_small_read_costs_no_more_than_its_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            ledger_id = store.create()
            await append(store, ledger_id, [entry(number) for number in range(40)])
            await append(store, ledger_id, [b"z" * 600])  # more than the cache can hold
            assert store.read_cached(ledger_id, 0, 1, 1) is None
            assert await store.read(ledger_id, 7, 2, 1000) == [entry(7), entry(8)]
            assert await store.read(ledger_id, 7, 100, 20) == [entry(7), entry(8)]
            assert await store.read(ledger_id, 40, 5, 1) == [b"z" * 600]
            assert await store.read(ledger_id, 41, 5, 1) == []

    asyncio.run(scenario())


def test_constructing_a_store_touches_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        LocalLedgerStore(tmp_path / "absent", SystemFiles(), asyncio.get_running_loop(), SMALL)

    asyncio.run(scenario())
    assert not (tmp_path / "absent").exists()


def test_a_log_belongs_to_one_life_from_its_first_opening_on() -> None:
    async def scenario() -> None:
        disk, options = FaultyDisk(), replace(SMALL, identity="first", first_ledger_id=1000)
        async with opened(Path("/log"), options, disk) as store:
            assert store.life == Life("first", 1000)
            after = disk.crash(random.Random(1))
        for each in (disk, after):
            async with opened(Path("/log"), replace(options, identity="second", first_ledger_id=2000), each) as store:
                assert store.life == Life("first", 1000)

    asyncio.run(scenario())


def test_a_log_of_an_earlier_release_may_have_given_any_id() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(Path("/log"), SMALL, disk) as store:
            assert store.life is None
            store.create()
        async with opened(Path("/log"), replace(SMALL, identity="first", first_ledger_id=1000), disk) as store:
            assert store.life == Life("first", 1)

    asyncio.run(scenario())


def test_a_life_that_cannot_be_read_is_named() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(Path("/log"), replace(SMALL, identity="first"), disk):
            pass
        disk.nodes[Path("/log/life")].data = bytearray(b"?")
        store = LocalLedgerStore(Path("/log"), disk, asyncio.get_running_loop(), SMALL)
        with pytest.raises(CorruptionError, match="/log/life"):
            await store.open()

    asyncio.run(scenario())


def test_another_thread_looks_at_the_free_space_and_a_failure_meanwhile_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = LookedAt()
        store = LocalLedgerStore(tmp_path, files, asyncio.get_running_loop(), replace(SMALL, low_water_bytes=1 << 60))
        await store.open()
        assert isinstance(store.state.shortage, DiskFullError)
        assert threading.get_ident() not in files.threads
        looks = len(files.threads)
        files.gate.clear()
        looking = asyncio.create_task(store.look_at_space())
        await turn()
        store.state = StoreState("a write has failed")
        files.gate.set()
        await looking
        assert len(files.threads) > looks
        assert store.state.failure == "a write has failed"
        await store.close()

    asyncio.run(scenario())


def test_the_committing_thread_gives_the_reserve_back() -> None:
    async def scenario() -> None:
        disk, options = GivingBack(), replace(SMALL, reserve_bytes=100_000, low_water_bytes=1)
        async with opened(Path("/log"), options, disk) as store:
            log, cursor = store.create(), store.create()
            assert await append(store, log, [entry(0)]) == 0
            refused: list[StorageError | None] = []
            written: list[StorageError | None] = []
            disk.room = 0
            store.append(log, [entry(1)], refused.append, urgent=False)
            store.append(cursor, [entry(1)], written.append)
            await barrier(store)
            assert await barrier(store) is None
            assert [type(error) for error in refused] == [DiskFullError]
            assert written == [None]
            assert len(disk.threads) == 1
            assert threading.get_ident() not in disk.threads
            assert await read_all(store, cursor) == [entry(1)]

    asyncio.run(scenario())


class GivingBack(FaultyDisk):
    """Notes which threads remove the reserve."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def remove(self, path: Path) -> None:
        if path.name == RESERVE_NAME and path in self.nodes:
            self.threads.append(threading.get_ident())
        super().remove(path)


class LookedAt(SystemFiles):
    """Notes which threads ask for the free space, and answers while the gate is open."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def free_bytes(self, path: Path) -> int:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(10)
        return super().free_bytes(path)


def test_runs_are_held_from_memory_or_read_and_damage_is_reported_when_they_are_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            ledger_id = store.create()
            await append(store, ledger_id, [b"x"], b"note")
            assert store.hold_runs([ledger_id]) is None, "the segment is not sealed"
            assert list(store.runs(ledger_id)) == [Run(0, 1, b"note")]
        async with opened(tmp_path) as store:
            reading = store.hold_runs([ledger_id])
            assert reading is not None
            await reading
            assert list(store.runs(ledger_id)) == [Run(0, 1, b"note")]
            store.release_runs([ledger_id])
            assert store.hold_runs([ledger_id]) is None, "the table was read"
            store.release_runs([ledger_id])
            with pytest.raises(AssertionError, match="not held"):
                list(store.runs(ledger_id))

    asyncio.run(scenario())


def test_damage_is_reported_when_the_runs_are_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as store:
            ledger_id, intact = store.create(), store.create()
            for each in (ledger_id, intact):
                await append(store, each, [b"x"], b"note")
        store = LocalLedgerStore(tmp_path, SystemFiles(), asyncio.get_running_loop(), SMALL)
        await store.open()
        extent = store._log.index.ledgers[ledger_id].extents[0]
        with segment_path(tmp_path, extent.segment).open("r+b") as segment:
            for offset in (SEGMENT_HEADER_SIZE, extent.index_offset):
                segment.seek(offset + 30)
                segment.write(b"\xff" * 8)
        reading = store.hold_runs([ledger_id, intact])
        assert reading is not None
        await reading
        with pytest.raises(CorruptionError, match=f"offset {extent.index_offset}: broken INDEX record"):
            list(store.runs(ledger_id))
        assert list(store.runs(intact)) == [Run(0, 1, b"note")]
        await store.close()

    asyncio.run(scenario())
