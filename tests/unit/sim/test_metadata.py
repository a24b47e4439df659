from __future__ import annotations

from random import Random

import pytest

from magnetar.base.errors import BadVersionError, DiskFullError, StorageError
from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import Put
from magnetar.sim.virtual.disk import FaultyDisk
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import FaultyMetadataStore, ProcessEnded
from magnetar.sim.virtual.scheduler import Scheduler
from tests.kit.stored import delete, put


def a_store() -> FaultyMetadataStore:
    return FaultyMetadataStore(HandClock(Scheduler()))


def test_failing_writes_change_nothing_and_reads_go_on() -> None:
    store = a_store()
    put(store, "/a", b"1")
    store.fail_writes = True
    with pytest.raises(DiskFullError):
        commit_at_start(store, [Put("/a", b"2"), Put("/b", b"2")])
    with pytest.raises(DiskFullError):
        delete(store, "/a")
    found = store.get("/a")
    assert found is not None
    assert found.value == b"1"
    assert store.children("/") == ["a"]
    store.fail_writes = False
    put(store, "/a", b"3")


@pytest.mark.parametrize("is_written", [True, False])
def test_the_process_ends_with_the_chosen_write(is_written: bool) -> None:
    store, heard, ended = a_store(), list[str](), list[FaultyMetadataStore]()
    store.watch("/", lambda change: heard.append(change.path))
    store.end_process_in(2, lambda: ended.append(store.reopened()), is_written=is_written)
    put(store, "/a", b"1")
    with pytest.raises(ProcessEnded):
        put(store, "/b", b"1")
    assert heard == ["/a"], "no watch hears of the write that ended the process"
    (next_store,) = ended
    assert next_store.children("/") == (["a", "b"] if is_written else ["a"])


def test_a_write_that_is_refused_ends_no_process_as_written() -> None:
    store = a_store()
    put(store, "/a", b"1")
    store.end_process_in(1, lambda: None, is_written=True)
    with pytest.raises(BadVersionError):
        put(store, "/a", b"2", expected_version=7)


def test_writes_of_a_dead_process_have_no_effect() -> None:
    store, ended = a_store(), list[FaultyMetadataStore]()
    store.end_process_in(1, lambda: ended.append(store.reopened()), is_written=False)
    with pytest.raises(ProcessEnded):
        put(store, "/a", b"1")
    put(store, "/b", b"1")
    assert ended[0].children("/") == []


def test_the_next_process_has_no_faults() -> None:
    store = a_store()
    store.fail_writes = True
    put(store.reopened(), "/a", b"1")


def test_one_write_fails_alone() -> None:
    store = a_store()
    store.fail_in(2)
    put(store, "/a", b"1")
    with pytest.raises(DiskFullError):
        put(store, "/a", b"2")
    put(store, "/a", b"3")
    assert store.failed_writes == 1


@pytest.mark.parametrize("is_found", [True, False])
def test_a_write_whose_sync_failed_may_be_found_by_the_next_process(is_found: bool) -> None:
    disk = FaultyDisk()
    store = FaultyMetadataStore(HandClock(Scheduler()), lambda: disk)
    put(store, "/a", b"1")
    disk.fail_syncs = True
    with pytest.raises(StorageError):
        put(store, "/b", b"1")
    assert store.children("/") == ["a"]
    assert store.reopened(with_doubtful=is_found).children("/") == (["a", "b"] if is_found else ["a"])


@pytest.mark.parametrize("is_found", [True, False])
def test_the_next_process_knows_which_deletions_without_an_answer_it_found(is_found: bool) -> None:
    disk = FaultyDisk()
    store = FaultyMetadataStore(HandClock(Scheduler()), lambda: disk)
    put(store, "/a", b"1")
    disk.fail_syncs = True
    with pytest.raises(StorageError):
        delete(store, "/a")
    assert store.reopened(with_doubtful=is_found).found_deletions == ({"/a"} if is_found else frozenset())


def test_the_next_process_knows_the_deletion_with_which_the_last_one_ended() -> None:
    store, ended = FaultyMetadataStore(HandClock(Scheduler())), list[FaultyMetadataStore]()
    put(store, "/a", b"1")
    store.end_process_in(1, lambda: ended.append(store.reopened()), is_written=True)
    with pytest.raises(ProcessEnded):
        delete(store, "/a")
    assert [each.found_deletions for each in ended] == [{"/a"}]
    assert ended[0].children("/") == []


def test_a_later_write_replaces_one_whose_sync_failed() -> None:
    disk = FaultyDisk()
    store = FaultyMetadataStore(HandClock(Scheduler()), lambda: disk)
    disk.fail_syncs = True
    with pytest.raises(StorageError):
        put(store, "/a", b"1")
    disk.fail_syncs = False
    put(store, "/b", b"1")
    assert store.reopened(with_doubtful=True).children("/") == ["b"]


def test_a_full_disk_takes_no_write() -> None:
    disk = FaultyDisk()
    store = FaultyMetadataStore(HandClock(Scheduler()), lambda: disk)
    disk.room = 3
    with pytest.raises(DiskFullError):
        put(store, "/a", b"12")
    put(store, "/a", b"1")
    assert disk.room == 0


def test_a_slow_write_keeps_the_process_waiting() -> None:
    waited: list[float] = []
    store = FaultyMetadataStore(HandClock(Scheduler()), waits=waited.append)
    store.commit_s = 0.5
    put(store, "/a", b"1")
    assert waited == [0.5]


def test_damaged_values_can_be_restored_unless_overwritten() -> None:
    store = a_store()
    put(store, "/a", b"12345")
    assert store.damage("/a", Random(1))
    damaged, written = store.get("/a"), store.written("/a")
    assert damaged is not None
    assert written is not None
    assert len(damaged.value) < len(written.value) == 5
    next_store = store.reopened()
    assert next_store.restore("/a")
    assert next_store.get("/a") == written
    assert next_store.damage("/a", Random(1))
    put(next_store, "/a", b"new")
    assert not next_store.restore("/a")
    assert not next_store.damage("/b", Random(1))
