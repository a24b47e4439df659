from __future__ import annotations

import pytest

from magnetar.base.errors import BadVersionError, DiskFullError
from magnetar.metadata.store import Put
from magnetar.sim.loop import HandClock
from magnetar.sim.metadata import FaultyMetadataStore, ProcessEnded
from magnetar.sim.scheduler import Scheduler


def a_store() -> FaultyMetadataStore:
    return FaultyMetadataStore(HandClock(Scheduler()))


def test_failing_writes_change_nothing_and_reads_go_on() -> None:
    store = a_store()
    store.put("/a", b"1")
    store.fail_writes = True
    with pytest.raises(DiskFullError):
        store.put_many([Put("/a", b"2"), Put("/b", b"2")])
    with pytest.raises(DiskFullError):
        store.delete("/a")
    found = store.get("/a")
    assert found is not None
    assert found.value == b"1"
    assert store.children("/") == ["a"]
    store.fail_writes = False
    store.put("/a", b"3")


@pytest.mark.parametrize("is_written", [True, False])
def test_the_process_ends_with_the_chosen_write(is_written: bool) -> None:
    store, heard, ended = a_store(), list[str](), list[FaultyMetadataStore]()
    store.watch("/", heard.append)
    store.end_process_in(2, lambda: ended.append(store.reopened()), is_written=is_written)
    store.put("/a", b"1")
    with pytest.raises(ProcessEnded):
        store.put("/b", b"1")
    assert heard == ["/a"], "no watch hears of the write that ended the process"
    (next_store,) = ended
    assert next_store.children("/") == (["a", "b"] if is_written else ["a"])


def test_a_write_that_is_refused_ends_no_process_as_written() -> None:
    store = a_store()
    store.put("/a", b"1")
    store.end_process_in(1, lambda: None, is_written=True)
    with pytest.raises(BadVersionError):
        store.put("/a", b"2", expected_version=7)


def test_what_the_dead_process_still_writes_reaches_nobody() -> None:
    store, ended = a_store(), list[FaultyMetadataStore]()
    store.end_process_in(1, lambda: ended.append(store.reopened()), is_written=False)
    with pytest.raises(ProcessEnded):
        store.put("/a", b"1")
    store.put("/b", b"1")
    assert ended[0].children("/") == []


def test_the_next_process_has_no_faults() -> None:
    store = a_store()
    store.fail_writes = True
    store.reopened().put("/a", b"1")


def test_one_write_fails_alone() -> None:
    store = a_store()
    store.fail_in(2)
    store.put("/a", b"1")
    with pytest.raises(DiskFullError):
        store.put("/a", b"2")
    store.put("/a", b"3")
    assert store.failed_writes == 1
