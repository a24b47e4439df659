"""Dropped objects are freed by reference counting, without the cyclic garbage collector."""

from __future__ import annotations

import gc
import itertools
import time
import weakref
from typing import TYPE_CHECKING

import pytest

from magnetar.base.parts import Part, count_of
from magnetar.broker.loop import cycles
from magnetar.broker.loop.cycles import (
    COLLECTIONS_UNTIL_OLD,
    EXAMINED_MAX_S,
    FULL_INTERVAL_S,
    NEVER,
    NEW_OBJECTS_MAX,
    QUIET_CHECK_S,
    QUIET_S,
    RETIRED_MAX,
    RETIRED_S,
    CycleCollector,
    Retired,
)
from magnetar.broker.loop.slices import SLICE_ITEMS_MAX, SlicedWork
from magnetar.sim.cluster import TOPIC, Cluster, Exclusive, Failover, Key_Shared, Shared
from magnetar.sim.virtual.loop import HandClock, HandLoop
from tests.kit.garbage import only_new_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.wire.proto import pulsar_api_pb2 as pb


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with a link, in a process without garbage collection."""
    with only_new_objects():
        cluster = Cluster(targets=("jfk",))
        cluster.topic()
        cluster.settle()
        gc.disable()
        yield cluster
        gc.enable()


def left_by(cluster: Cluster, work: Callable[[], None]) -> list[str]:
    """Return the types of Magnetar's objects in cycles after ``work`` ran a second time."""
    for _ in range(2):
        gc.collect()
        work()
        cluster.settle()
        cluster.loop.advance(RETIRED_S + 1)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        types = (type(each) for each in gc.garbage)
        return sorted(each.__qualname__ for each in types if each.__module__.startswith("magnetar"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_a_topic_that_was_unloaded_is_freed(cluster: Cluster) -> None:
    def work() -> None:
        client = cluster.client()
        client.produce()
        client.send("a", "b")
        client.subscribe(1, Shared, subscription="kept", replicate_subscription_state=True)
        cluster.do(client.session.closed)
        cluster.do(lambda: cluster.topics.unload(TOPIC))

    assert left_by(cluster, work) == []


def test_a_topic_that_was_deleted_is_freed(cluster: Cluster) -> None:
    def work() -> None:
        cluster.topic()
        cluster.do(lambda: [None for _ in cluster.topics.deletion(TOPIC)])

    assert left_by(cluster, work) == []


@pytest.mark.parametrize("kind", [Exclusive, Failover, Shared, Key_Shared])
@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_that_was_deleted_is_freed(
    cluster: Cluster, kind: pb.CommandSubscribe.SubType.ValueType, durable: bool
) -> None:
    def work() -> None:
        client = cluster.client()
        client.subscribe(1, kind, subscription="s", durable=durable)
        cluster.do(client.session.closed)
        topic = cluster.topic()
        subscription = topic.subscriptions.get("s")
        if subscription is not None:
            cluster.do(lambda: topic.remove_subscription(subscription))

    assert left_by(cluster, work) == []


class Thing(Part):
    """An object with a part that refers to it."""

    OWNS = ("inner", "named", "gone")

    def __init__(self, of: Thing | None = None) -> None:
        self.of = of
        self.gone = None
        if of is None:
            self.inner = Thing(self)
            self.named = {"a": Thing(self)}


def test_closed_objects_are_cleared_after_a_while() -> None:
    loop = HandLoop()
    retired = Retired(loop, HandClock(loop), SlicedWork(loop, HandClock(loop)))
    first, second = Thing(), Thing()
    inner, named = first.inner, first.named["a"]
    retired.add(first)
    loop.advance(RETIRED_S / 2)
    retired.add(second)
    retired.add(inner)  # cleared before its turn
    assert inner.of is first
    loop.advance(RETIRED_S / 2)
    assert [vars(each) for each in (first, inner, named)] == [{}, {}, {}]
    assert second.inner.of is second
    loop.advance(RETIRED_S)
    assert vars(second) == {}


def test_something_large_is_taken_apart_in_slices() -> None:
    loop = HandLoop()
    retired = Retired(loop, HandClock(loop), SlicedWork(loop, HandClock(loop)))
    large = Thing()
    inner = [Thing(large) for _ in range(3 * SLICE_ITEMS_MAX)]
    large.named = {str(number): each for number, each in enumerate(inner)}
    left: list[int] = []
    retired.add(large)
    loop.call_later(RETIRED_S, lambda: left.append(sum(bool(vars(each)) for each in inner)))
    loop.advance(RETIRED_S)
    assert 0 < left[0] < len(inner)
    assert not any(vars(each) for each in (*inner, large))


def test_of_much_that_was_closed_the_oldest_is_taken_apart_before_its_time() -> None:
    loop = HandLoop()
    retired = Retired(loop, HandClock(loop), SlicedWork(loop, HandClock(loop)))
    kept = RETIRED_MAX // count_of(Thing())
    things = [Thing() for _ in range(kept + 3)]
    for each in things:
        retired.add(each)
    loop.spin()
    assert [bool(vars(each)) for each in things] == [False] * 3 + [True] * kept


def test_something_large_counts_by_its_parts_and_stays_whole_while_it_is_the_newest() -> None:
    loop = HandLoop()
    retired = Retired(loop, HandClock(loop), SlicedWork(loop, HandClock(loop)))
    small, large, other, last = Thing(), Thing(), Thing(), Thing()
    for each in (large, other):
        each.named = {str(number): Thing(each) for number in range(RETIRED_MAX)}
    whole: list[list[bool]] = []
    for each in (small, large, other, last):
        retired.add(each)
        loop.spin()
        whole.append([bool(vars(each)) for each in (small, large, other, last)])
    assert whole == [[True] * 4, [False, True, True, True], [False, False, True, True], [False, False, False, True]]


def test_survivors_are_frozen_and_a_stop_restores_the_process() -> None:
    before = gc.get_threshold(), len(gc.callbacks)
    collector = CycleCollector(HandLoop(), lambda: 0.0)
    collector.start()
    try:
        assert gc.get_threshold() == (NEW_OBJECTS_MAX, COLLECTIONS_UNTIL_OLD, NEVER)
        kept = [[] for _ in range(1000)]  # type: list[list[None]]
        gc.collect(1)
        assert not any(each is kept for each in gc.get_objects())
        frozen = gc.get_freeze_count()
        del kept
        assert gc.get_freeze_count() <= frozen - 1000
        collector.collect_all()
        assert gc.get_freeze_count()
    finally:
        collector.stop()
    assert (gc.get_threshold(), len(gc.callbacks)) == before
    assert not gc.get_freeze_count()


@pytest.fixture
def collector() -> Iterator[CycleCollector]:
    """A collector in a process where only ``collect_new`` collects."""
    collector = CycleCollector(HandLoop(), lambda: 0.0)
    collector.start()
    gc.disable()
    yield collector
    gc.enable()
    collector.stop()


def test_a_look_frees_new_cycles_and_keeps_what_is_new_for_further_looks(collector: CycleCollector) -> None:
    kept, cycle = Thing(), Thing()
    cycle.named = {"self": cycle}
    seen = weakref.ref(cycle)
    del cycle
    collector.collect_new()
    assert seen() is None
    assert any(each is kept for each in gc.get_objects())
    for _ in range(COLLECTIONS_UNTIL_OLD + 1):
        collector.collect_new()
    assert not any(each is kept for each in gc.get_objects()), "it is frozen"


def test_survivors_of_a_large_collection_are_frozen(collector: CycleCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "EXAMINED_MAX_S", 0.0)
    kept = Thing()
    collector.collect_new()
    assert not any(each is kept for each in gc.get_objects())


def test_survivors_are_frozen_before_another_collection_would_take_long(
    collector: CycleCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_s = 0.6 * EXAMINED_MAX_S
    monkeypatch.setattr(time, "perf_counter", itertools.count(step=look_s).__next__)
    for _ in range(2):
        kept = Thing()
        collector.collect_new()
        assert any(each is kept for each in gc.get_objects())
        collector.collect_new()
        assert not any(each is kept for each in gc.get_objects())


def test_all_is_examined_once_a_day_while_no_client_waits() -> None:
    loop, idle_s, looks = HandLoop(), [0.0], list[float]()
    collector = CycleCollector(loop, lambda: idle_s[0])
    collector.collect_all = lambda: looks.append(loop.time())  # type: ignore[method-assign]
    collector.start()
    try:
        loop.advance(FULL_INTERVAL_S)
        loop.advance(QUIET_CHECK_S)
        assert looks == []
        idle_s[0] = QUIET_S
        loop.advance(QUIET_CHECK_S)
        loop.advance(FULL_INTERVAL_S - 1)
        assert looks == [FULL_INTERVAL_S + 2 * QUIET_CHECK_S]
        loop.advance(1)
        assert len(looks) == 2
    finally:
        collector.stop()
