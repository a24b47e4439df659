from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import StorageError
from magnetar.base.position import Position
from magnetar.metadata.policies import TenantInfo
from magnetar.metasync import store as store_module
from magnetar.metasync import synchronizer
from magnetar.metasync.events import MetadataChangeEvent
from magnetar.metasync.synchronizer import Synchronizer
from tests.unit.metasync.pulsar_events import PULSAR_EVENTS
from tests.unit.metasync.test_store import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from magnetar.metadata.store import OnDurable


Test = Callable[..., Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests depend on the turns of the loop only, not on the time that they take."""
    monkeypatch.setattr(synchronizer, "SLICE_S", 3_600.0)


def in_loop(test: Test) -> Callable[..., None]:
    """Run a test in an event loop."""

    @wraps(test)
    def run(**fixtures: object) -> None:
        asyncio.run(test(**fixtures))

    return run


class Topic:
    """The event topic in one cluster; what is published goes to the other clusters as well."""

    def __init__(self) -> None:
        self.others: list[Topic] = []
        self.published: list[bytes] = []
        self.acknowledged: list[Position] = []
        self.is_lost = False
        self.log: asyncio.Queue[bytes] = asyncio.Queue()
        self._arrived: asyncio.Queue[tuple[Position, bytes]] = asyncio.Queue()
        self._count = 0

    def publish(self, event: bytes) -> Awaitable[object]:
        if self.is_lost:
            raise ConnectionResetError
        self.published.append(event)
        self.log.put_nowait(event)
        for topic in (self, *self.others):
            topic.arrive(event)
        return turn()

    def arrive(self, event: bytes) -> None:
        self._arrived.put_nowait((Position(1, self._count), event))
        self._count += 1

    async def receive(self) -> tuple[Position, bytes]:
        return await self._arrived.get()

    def acknowledge(self, position: Position) -> None:
        self.acknowledged.append(position)


@contextlib.asynccontextmanager
async def running(*synchronizers: tuple[Synchronizer, Topic]) -> AsyncIterator[list[asyncio.Task[Exception]]]:
    tasks = [asyncio.ensure_future(each.run(topic)) for each, topic in synchronizers]
    await settled()
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def turn() -> asyncio.Future[None]:
    """Return a result that is available in the next turn of the loop."""
    loop = asyncio.get_running_loop()
    following: asyncio.Future[None] = loop.create_future()
    loop.call_soon(following.set_result, None)
    return following


async def settled() -> None:
    for _ in range(400):
        await turn()


def mesh(*names: str) -> tuple[list[Cluster], list[Synchronizer], list[Topic]]:
    clusters, topics = [Cluster(name) for name in names], [Topic() for _ in names]
    for topic in topics:
        topic.others = [other for other in topics if other is not topic]
    return clusters, [Synchronizer(cluster.store, 0) for cluster in clusters], topics


@in_loop
async def test_an_edit_reaches_all_clusters_and_is_published_once() -> None:
    clusters, synchronizers, topics = mesh("ewr", "jfk", "lga")
    clusters[0].resources.tenants.create("before", TenantInfo())
    async with running(*zip(synchronizers, topics, strict=True)):
        clusters[0].resources.tenants.create("acme", TenantInfo(adminRoles=["admin"]))
        clusters[2].resources.tenants.create("umbrella", TenantInfo())
        await settled()
    first, *others = [cluster.documents() for cluster in clusters]
    assert len(first) == 3
    assert others == [first, first]
    assert [len(topic.published) for topic in topics] == [2, 0, 1]
    assert all(cluster.events() == [] for cluster in clusters)
    assert [len(topic.acknowledged) for topic in topics] == [3, 3, 3]
    assert [each.applied for each in synchronizers] == [1, 3, 2]
    assert clusters[1].store.arrivals.newest_ms == {"ewr": 1_000_000, "lga": 1_000_000}


@in_loop
async def test_a_lost_connection_ends_the_run_and_loses_no_event() -> None:
    (ewr, _), (synchronizer_of_ewr, _), (topic, _) = mesh("ewr", "jfk")
    async with running((synchronizer_of_ewr, topic)) as (task,):
        topic.is_lost = True
        ewr.resources.tenants.create("acme", TenantInfo())
        await settled()
        assert isinstance(task.result(), ConnectionResetError)
    assert len(ewr.events()) == 1
    topic.is_lost = False
    async with running((synchronizer_of_ewr, topic)):
        assert ewr.events() == []
    assert len(topic.published) == 1


@in_loop
async def test_an_event_that_cannot_be_applied_is_kept_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "REFUSED_MAX", 2)
    (ewr, jfk), (_, synchronizer_of_jfk), (_, topic) = mesh("ewr", "jfk")
    ewr.now_s = 99_000.0
    ewr.resources.tenants.create("future", TenantInfo())
    ewr.now_s = 1_000.0
    late = Cluster("lga")
    late.resources.tenants.create("acme", TenantInfo())
    huge = ewr.events()[0].encode().replace(b"99000000", b"9" * 400)
    nested = b'"edits":{"/x":[' + b"[" * 900 + b"]" * 900 + b',1,0,"lga"]}'
    deep = late.events()[0].encode().replace(b'"edits":{}', nested)
    for event in (b"\xff", huge, deep, *(each.encode() for each in (*ewr.events(), *late.events())), b"{}"):
        topic.arrive(event)
    async with running((synchronizer_of_jfk, topic)):
        pass
    assert list(jfk.documents()) == ["/admin/policies/acme"]
    assert (synchronizer_of_jfk.refused, len(topic.acknowledged)) == (5, 6)
    future, malformed = jfk.store.refused()
    assert "98000 s ahead of the clock here" in future["reason"]
    assert MetadataChangeEvent.decode(future["event"].encode()) == ewr.events()[0]
    assert "is missing or has a wrong type" in malformed["reason"]


@in_loop
async def test_events_of_apache_pulsar_are_refused_and_stop_nothing() -> None:
    (ewr, jfk), (_, synchronizer_of_jfk), (_, topic) = mesh("ewr", "jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    for event in (*PULSAR_EVENTS, *(each.encode() for each in ewr.events())):
        topic.arrive(event)
    async with running((synchronizer_of_jfk, topic)):
        pass
    assert jfk.documents() == ewr.documents()
    assert (synchronizer_of_jfk.refused, len(topic.acknowledged)) == (2, 3)
    assert ["MetadataEvent of Apache Pulsar" in each["reason"] for each in jfk.store.refused()] == [True, True]


@in_loop
async def test_a_snapshot_brings_a_new_cluster_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronizer, "PUBLISHED_AT_ONCE", 2)
    clusters, synchronizers, topics = mesh("ewr", "jfk")
    for number in range(5):
        clusters[0].resources.tenants.create(f"t{number}", TenantInfo())
    clusters[0].store.published(range(5))
    async with running(*zip(synchronizers, topics, strict=True)):
        assert clusters[1].documents() == {}
        await synchronizers[0].snapshot(topics[0])
        await settled()
    assert clusters[1].documents() == clusters[0].documents() != {}
    assert clusters[1].events() == []


@in_loop
async def test_the_failure_of_each_event_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio reports an exception that nobody retrieves as a bug."""
    (ewr, _), (synchronizer_of_ewr, _), (topic, _) = mesh("ewr", "jfk")
    for name in ("a", "b", "c"):
        ewr.resources.tenants.create(name, TenantInfo())
    loop, problems = asyncio.get_running_loop(), list[Any]()
    loop.set_exception_handler(lambda _, context: problems.append(context))

    def publish(event: bytes) -> Awaitable[object]:
        topic.published.append(event)
        if len(topic.published) % 3 == 0:
            raise ConnectionResetError
        failed = loop.create_future()
        failed.set_exception(ConnectionResetError())
        return failed

    monkeypatch.setattr(topic, "publish", publish)
    for _ in range(2):
        async with running((synchronizer_of_ewr, topic)) as (task,):
            assert isinstance(task.result(), ConnectionResetError)
        with pytest.raises(ConnectionResetError):
            await synchronizer_of_ewr.snapshot(topic)
    gc.collect()
    assert (len(topic.published), problems) == (12, [])


@in_loop
async def test_a_snapshot_contains_durable_edits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that a crash loses must not win in the other clusters later."""
    (ewr, _), (synchronizer_of_ewr, _), (topic, _) = mesh("ewr", "jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    pending: list[OnDurable] = []

    def commit(_: object, on_durable: OnDurable | None = None) -> list[int]:
        pending.extend(filter(None, [on_durable]))
        return []

    monkeypatch.setattr(ewr.inner, "commit", commit)
    taken = asyncio.ensure_future(synchronizer_of_ewr.snapshot(topic))
    await settled()
    assert (taken.done(), topic.published) == (False, [])
    for on_durable in pending:
        on_durable(StorageError("disk full"))
    with pytest.raises(StorageError):
        await taken
    assert topic.published == []


@in_loop
async def test_lost_connections_do_not_delay_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters, _, (topic, _) = mesh("ewr", "jfk")
    clusters[0].resources.tenants.create("acme", TenantInfo())
    synchronizer_of_ewr, loop = Synchronizer(clusters[0].store, 60), asyncio.get_running_loop()
    now = [loop.time()]
    monkeypatch.setattr(loop, "time", lambda: now[0])
    for _ in range(4):
        async with running((synchronizer_of_ewr, topic)):
            now[0] += 25
            await settled()
    assert [MetadataChangeEvent.decode(each).type.value for each in topic.published] == ["Created", "Snapshot"]


@in_loop
async def test_snapshots_are_periodic() -> None:
    clusters, _, (topic, _) = mesh("ewr", "jfk")
    clusters[0].resources.tenants.create("acme", TenantInfo())
    async with running((Synchronizer(clusters[0].store, 1e-6), topic)):
        _, *snapshots = [MetadataChangeEvent.decode(await topic.log.get()) for _ in range(3)]
    assert {event.type.value for event in snapshots} == {"Snapshot"}


@in_loop
async def test_other_work_goes_on_while_many_events_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronizer, "SLICE_S", 0.0)
    (ewr, jfk), (_, synchronizer_of_jfk), (_, topic) = mesh("ewr", "jfk")
    for number in range(20):
        ewr.resources.tenants.create(f"t{number}", TenantInfo())
    for event in ewr.events():
        topic.arrive(event.encode())
    applied = []
    async with running((synchronizer_of_jfk, topic)):
        pass
    task = asyncio.ensure_future(synchronizer_of_jfk.run(topic))
    for event in ewr.events():
        topic.arrive(event.encode())
    while len(topic.acknowledged) < 40:
        await turn()
        applied.append(len(topic.acknowledged))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert max(after - before for before, after in itertools.pairwise([20, *applied])) <= 2
    assert jfk.documents() == ewr.documents()


@in_loop
async def test_events_wait_while_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronizer, "MEMORY_CHECK_S", 0.0)
    (ewr, jfk), _, (_, topic) = mesh("ewr", "jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    topic.arrive(ewr.events()[0].encode())
    has_memory = False
    applied: list[MetadataChangeEvent] = []
    waiting = Synchronizer(jfk.store, 0, lambda: has_memory, applied.append)
    async with running((waiting, topic)):
        assert (waiting.applied, waiting.refused, topic.acknowledged) == (0, 0, [])
        has_memory = True
        await settled()
        assert waiting.applied == len(topic.acknowledged) == 1
        topic.arrive(ewr.events()[0].encode())
        await settled()
        assert len(topic.acknowledged) == 2
    assert [(event.resource.name, event.source_cluster) for event in applied] == [("acme", "ewr")]
    assert jfk.documents() == ewr.documents()


@in_loop
async def test_a_bug_that_an_event_reveals_is_reported_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (ewr, jfk), (_, synchronizer_of_jfk), (_, topic) = mesh("ewr", "jfk")
    for name in ("a", "b"):
        ewr.resources.tenants.create(name, TenantInfo())
    loop, problems, apply = asyncio.get_running_loop(), list[Any](), jfk.store.apply
    loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))

    def apply_or_fail(event: MetadataChangeEvent, on_durable: OnDurable) -> bool:
        if event.resource.name == "a":
            message = "a bug"
            raise TypeError(message)
        return apply(event, on_durable)

    monkeypatch.setattr(jfk.store, "apply", apply_or_fail)
    for event in ewr.events():
        topic.arrive(event.encode())
    async with running((synchronizer_of_jfk, topic)):
        pass
    assert list(jfk.documents()) == ["/admin/policies/b"]
    assert (synchronizer_of_jfk.refused, len(topic.acknowledged)) == (1, 2)
    assert [each["reason"] for each in jfk.store.refused()] == ["TypeError('a bug')"]
    assert [type(each) for each in problems] == [TypeError]


@in_loop
async def test_a_bug_in_a_part_of_the_synchronizer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    (ewr, _), (synchronizer_of_ewr, _), (topic, _) = mesh("ewr", "jfk")
    loop, problems = asyncio.get_running_loop(), list[Any]()
    loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
    monkeypatch.setattr(ewr.store, "published", None)
    async with running((synchronizer_of_ewr, topic)) as (task,):
        ewr.resources.tenants.create("acme", TenantInfo())
        await settled()
        assert isinstance(task.result(), TypeError)
    assert [type(each) for each in problems] == [TypeError]
