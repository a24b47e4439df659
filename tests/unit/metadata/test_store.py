"""Both stores have the same guarantees; the local one is also durable."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import BadVersionError, CorruptionError, StorageError
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.local import REPORTS_S, LocalMetadataStore
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import ABSENT, Change, Delete, MetadataStore, Put, Versioned
from tests.kit.stored import delete, put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from magnetar.metadata.cached import Transaction


COMMITS = 20


class FixedClock:
    """A clock that stands still."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return 12.5

    def monotonic(self) -> float:
        """Seconds since some start."""
        return 0.0

    def boot(self) -> str:
        return ""


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    """Each kind of store in turn."""
    opened: MetadataStore
    if request.param == "memory":
        opened = MemoryMetadataStore(FixedClock())
    else:
        opened = LocalMetadataStore(tmp_path / "metadata.db", FixedClock())
    yield opened
    opened.close()


def test_versions_count_changes(store: MetadataStore) -> None:
    """A path starts at version 0, with the time of the clock."""
    assert store.get("/a") is None
    assert put(store, "/a", b"1") == 0
    assert put(store, "/a", b"2") == 1
    assert store.get("/a") == Versioned(b"2", 1, 12500)


def test_compare_and_set(store: MetadataStore) -> None:
    """A write with another expected version changes nothing."""
    put(store, "/a", b"1", ABSENT)
    with pytest.raises(BadVersionError, match=r"version of /a is 0, expected -1"):
        put(store, "/a", b"2", ABSENT)
    with pytest.raises(BadVersionError, match=r"version of /b is -1, expected 0"):
        put(store, "/b", b"2", 0)
    assert put(store, "/a", b"3", 0) == 1
    with pytest.raises(BadVersionError):
        delete(store, "/a", 0)
    delete(store, "/a", 1)
    assert store.get("/a") is None
    with pytest.raises(BadVersionError):
        delete(store, "/a", 1)
    delete(store, "/a")


def test_many_puts_are_one(store: MetadataStore) -> None:
    """A transaction is atomic; it may contain a path twice."""
    heard: list[str] = []
    store.watch("/", lambda change: heard.append(change.path))
    with pytest.raises(BadVersionError):
        commit_at_start(store, [Put("/a", b"1"), Put("/b", b"1", 7)])
    assert store.get("/a") is None
    assert heard == []
    assert store.commit([Put("/a", b"1"), Put("/b", b"1", ABSENT), Put("/a", b"2", 0)]) == [0, 0, 1]
    assert heard == ["/a", "/b", "/a"]


def test_children_are_one_level_below(store: MetadataStore) -> None:
    """Including those with only grandchildren, and excluding paths with only the same prefix."""
    for path in ("/p/b", "/p/a/x", "/p/a/y", "/p", "/pq/z", "/p/a0", "/p-/k"):
        put(store, path, b"")
    assert store.children("/p") == ["a", "a0", "b"]
    assert store.children("/p/a") == ["x", "y"]
    assert store.children("/none") == []
    assert store.children("/") == ["p", "p-", "pq"]


def test_all_values_below_a_path_are_yielded_in_order(store: MetadataStore) -> None:
    for path in ("/p/b", "/p/a/x", "/p", "/pq/z", "/p/a0", "/p/a", "/p-/k"):
        put(store, path, path.encode())
    paths = ["/p/a", "/p/a/x", "/p/a0", "/p/b"]
    assert list(store.below("/p")) == [(path, path.encode()) for path in paths]
    assert list(store.below("/none")) == []


def test_watch_covers_a_subtree_until_it_ends(store: MetadataStore) -> None:
    """The path and its descendants are reported after they can be read."""
    heard: list[tuple[str, bool]] = []
    end = store.watch("/p", lambda change: heard.append((change.path, store.get(change.path) is not None)))
    put(store, "/p", b"")
    put(store, "/p/a", b"")
    put(store, "/pq", b"")
    delete(store, "/p/a")
    end()
    end()
    put(store, "/p", b"")
    assert heard == [("/p", True), ("/p/a", True), ("/p/a", False)]


def test_a_commit_deletes_with_checks(store: MetadataStore) -> None:
    """Removals are part of a transaction; watches get the old and the new version."""
    heard: list[Change] = []
    put(store, "/a", b"1")
    store.watch("/", heard.append)
    with pytest.raises(BadVersionError):
        store.commit([Put("/b", b"1"), Delete("/a", 7)])
    assert store.get("/b") is None
    assert store.commit([Delete("/a", 0), Put("/b", b"2", ABSENT), Delete("/c")]) == [0]
    assert store.get("/a") is None
    assert [(each.path, each.before, each.after) for each in heard] == [
        ("/a", Versioned(b"1", 0, 12500), None),
        ("/b", None, Versioned(b"2", 0, 12500)),
        ("/c", None, None),
    ]


def test_a_barrier_with_nothing_pending_is_passed(store: MetadataStore) -> None:
    """A barrier does not wait."""
    put(store, "/a", b"1")
    passed: list[StorageError | None] = []
    store.barrier(passed.append)
    assert passed == [None]


def test_a_store_that_serves_reports_in_order(tmp_path: Path) -> None:
    """Reads include pending commits; reports and watches come in later turns, in commit order."""

    async def scenario() -> None:
        path = tmp_path / "metadata.db"
        store = LocalMetadataStore(path, FixedClock())
        store.serve(asyncio.get_running_loop())
        heard: list[str] = []
        done = asyncio.Event()
        store.watch("/", lambda change: heard.append(f"watch {change.path}"))

        def note(number: int, error: StorageError | None) -> None:
            heard.append(f"{number} {error}")

        for number in range(3):
            store.commit([Put("/a", b"%d" % number)], partial(note, number))
            assert store.get("/a") == Versioned(b"%d" % number, number, 12500)
        store.barrier(lambda _: done.set())
        assert heard == []
        await done.wait()
        assert heard == ["watch /a", "0 None", "watch /a", "1 None", "watch /a", "2 None"]
        assert 1 <= store.commit_times.buckets()[-1][1] <= 3
        await Commit(store, [Delete("/a", 2), Put("/b", b"")])
        store.close()
        reopened = LocalMetadataStore(path, FixedClock())
        assert (reopened.get("/a"), reopened.children("/")) == (None, ["b"])
        reopened.close()

    asyncio.run(scenario())


def test_a_failed_commit_takes_back_what_rests_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pending commits fail with it, in order; afterwards the store continues from the durable state."""

    async def scenario() -> None:
        store = LocalMetadataStore(tmp_path / "metadata.db", FixedClock())
        put(store, "/a", b"old")
        store.serve(asyncio.get_running_loop())
        write_group = store._write
        monkeypatch.setattr(store, "_write", fail)
        heard: list[tuple[int, str]] = []
        done = asyncio.Event()

        def note(number: int, error: StorageError | None) -> None:
            heard.append((number, str(error)))

        for number in range(3):
            store.commit([Put("/a", b"new")], partial(note, number))
        store.barrier(lambda _: done.set())
        await done.wait()
        assert heard == [(0, "no disk"), (1, "no disk"), (2, "no disk")]
        assert store.get("/a") == Versioned(b"old", 0, 12500)
        monkeypatch.setattr(store, "_write", write_group)
        await Commit(store, [Put("/a", b"newer", 0)])
        assert store.get("/a") == Versioned(b"newer", 1, 12500)
        store.close()

    asyncio.run(scenario())


def test_closing_reports_what_is_pending_in_order(tmp_path: Path) -> None:
    """A commit that is made in a report is reported as well."""

    async def scenario() -> None:
        store = LocalMetadataStore(tmp_path / "metadata.db", FixedClock())
        store.serve(asyncio.get_running_loop())
        heard: list[str] = []

        def first(_: StorageError | None) -> None:
            heard.append("first")
            store.commit([Put("/c", b"")], lambda _: heard.append("third"))

        store.commit([Put("/a", b"")], first)
        store.commit([Put("/b", b"")], lambda _: heard.append("second"))
        store.close()
        assert heard == ["first", "second", "third"]

    asyncio.run(scenario())


class RunningClock(FixedClock):
    """A clock that passes a quarter of REPORTS_S with each look."""

    elapsed_s = 0.0

    def monotonic(self) -> float:
        """Seconds since some start."""
        self.elapsed_s += REPORTS_S / 4
        return self.elapsed_s

    def boot(self) -> str:
        return ""


async def reported_in_part(path: Path, heard: list[int]) -> LocalMetadataStore:
    """Return a store at the end of a turn in which it reported some of COMMITS durable commits."""
    store = LocalMetadataStore(path / "metadata.db", RunningClock())
    store.serve(asyncio.get_running_loop())
    written, write_group = threading.Event(), store._write

    def write_later(group: Sequence[Transaction]) -> None:
        written.wait()
        write_group(group)

    store._write = write_later  # type: ignore[method-assign]
    second = asyncio.Event()

    def note(number: int, _error: StorageError | None) -> None:
        heard.append(number)
        if number == 1:
            second.set()

    for number in range(COMMITS + 1):  # the first one is a group of its own
        store.commit([Put(f"/{number}", b"")], partial(note, number))
    written.set()
    await second.wait()
    assert len(heard) <= 1 + 4, "each look of the clock is a quarter of the time"
    return store


def test_many_commits_are_reported_in_several_turns(tmp_path: Path) -> None:
    """The order is kept, also by what is committed meanwhile."""

    async def story() -> None:
        heard: list[int] = []
        store = await reported_in_part(tmp_path, heard)
        seen: list[int] = []
        done = asyncio.Event()

        def look() -> None:
            seen.append(len(heard))
            if len(heard) < COMMITS + 2:
                asyncio.get_running_loop().call_soon(look)
            else:
                done.set()

        store.commit([Put("/last", b"")], lambda _: heard.append(COMMITS + 1))
        look()
        await done.wait()
        assert heard == list(range(COMMITS + 2))
        assert max(after - before for before, after in pairwise(seen)) <= 4
        store.close()

    asyncio.run(story())


def test_the_end_reports_the_rest_at_once(tmp_path: Path) -> None:
    """Nothing is reported after it."""

    async def story() -> None:
        heard: list[int] = []
        store = await reported_in_part(tmp_path, heard)
        store.close()
        assert heard == list(range(COMMITS + 1))

    asyncio.run(story())


def fail(_group: object) -> None:
    """Write nothing."""
    message = "no disk"
    raise StorageError(message)


def test_local_store_keeps_everything(tmp_path: Path) -> None:
    """Stored values survive a restart."""
    path = tmp_path / "metadata.db"
    first = LocalMetadataStore(path, FixedClock())
    put(first, "/a", b"\x00\xff")
    put(first, "/a", b"\x01")
    first.close()
    second = LocalMetadataStore(path, FixedClock())
    assert second.get("/a") == Versioned(b"\x01", 1, 12500)
    second.close()


def test_local_store_has_one_owner(tmp_path: Path) -> None:
    """A second broker on the same file is refused."""
    path = tmp_path / "metadata.db"
    first = LocalMetadataStore(path, FixedClock())
    with pytest.raises(StorageError, match="is another broker using it"):
        LocalMetadataStore(path, FixedClock())
    first.close()


def test_local_store_refuses_other_files(tmp_path: Path) -> None:
    """A file that is no metadata store is named in the error, and not changed."""
    path = tmp_path / "metadata.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(CorruptionError, match=r"metadata\.db"):
        LocalMetadataStore(path, FixedClock())
    assert path.read_bytes() == b"no database" * 100


def test_local_store_syncs_every_commit(tmp_path: Path) -> None:
    """The settings for durability are active (2: FULL)."""
    store = LocalMetadataStore(tmp_path / "metadata.db", FixedClock())
    connection = store._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()
