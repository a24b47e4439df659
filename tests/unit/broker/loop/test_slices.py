"""Work on many topics yields the event loop to other work in between."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.metrics.exposition import exposition
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.broker.housekeeping import maintenance
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.loop import slices
from magnetar.broker.loop.slices import SLICE_ITEMS_MAX, SLICE_S, SharedSlices, SlicedWork
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, Cluster, Failover, Key_Shared, Shared
from magnetar.sim.virtual.loop import HandClock, HandLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

    from magnetar.broker.topic.topic import Topic
    from magnetar.wire.proto import pulsar_api_pb2 as pb

TOPICS = 30


class Turns:
    """Counts the turns of an event loop with other work."""

    def __init__(self, loop: HandLoop) -> None:
        """Start counting."""
        self.number = 0
        self._loop = loop
        self._left = 1_000
        loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.number += 1
        self._left -= 1
        if self._left:
            self._loop.call_soon(self._turn)


def test_a_slice_ends_with_its_time_and_with_its_items() -> None:
    loop = HandLoop()
    turns, seen = Turns(loop), []

    def steps() -> Generator[None, None, None]:
        for item in range(3 * SLICE_ITEMS_MAX):
            seen.append((turns.number, item))
            if item < 4:
                loop.elapsed_s += 0.6 * SLICE_S
            yield

    loop.start(SharedSlices(loop, HandClock(loop)).run(steps()))
    assert [item for _, item in seen] == list(range(3 * SLICE_ITEMS_MAX))
    by_turn = [sum(turn == number for turn, _ in seen) for number in sorted({turn for turn, _ in seen})]
    assert by_turn == [2, 2, SLICE_ITEMS_MAX, SLICE_ITEMS_MAX, SLICE_ITEMS_MAX - 4]


def test_few_items_are_done_at_once_and_a_new_start_replaces_what_is_left() -> None:
    loop = HandLoop()
    done: list[tuple[str, int]] = []
    work: SlicedWork[str, int] = SlicedWork(loop, HandClock(loop))
    work.start("few", range(3), lambda item: done.append(("few", item)))
    assert done == [("few", 0), ("few", 1), ("few", 2)]
    done.clear()
    loop.spin()
    work.start("many", range(2 * SLICE_ITEMS_MAX), lambda item: done.append(("old", item)))
    work.start("other", range(1), lambda item: done.append(("other", item)))
    work.start("many", range(2), lambda item: done.append(("new", item)))
    assert done == [("old", item) for item in range(SLICE_ITEMS_MAX)]
    loop.spin()
    assert done[SLICE_ITEMS_MAX:] == [("other", 0), ("new", 0), ("new", 1)]


def test_all_that_is_started_in_a_turn_shares_its_slice() -> None:
    loop = HandLoop()
    done: list[int] = []
    work: SlicedWork[int, int] = SlicedWork(loop, HandClock(loop))

    def start_many() -> None:
        for key in range(3 * SLICE_ITEMS_MAX):
            work.start(key, [key], done.append)

    by_turn: list[int] = []

    def look() -> None:
        by_turn.append(len(done))
        if len(done) < 3 * SLICE_ITEMS_MAX:
            loop.call_soon(look)

    loop.call_soon(start_many)
    loop.call_soon(look)
    loop.spin()
    assert by_turn[:3] == [SLICE_ITEMS_MAX, 2 * SLICE_ITEMS_MAX, 3 * SLICE_ITEMS_MAX]
    assert done == list(range(3 * SLICE_ITEMS_MAX))
    work.start(0, [7], done.append)
    assert done[-1] == 7, "the slice of a later turn has room"


def test_an_error_ends_neither_the_rest_nor_other_keys() -> None:
    loop = HandLoop()
    done: list[int] = []
    work: SlicedWork[str, int] = SlicedWork(loop, HandClock(loop))
    with pytest.raises(ZeroDivisionError):
        work.start("key", [0, 1, 2], lambda item: done.append(1 // item))
    loop.spin()
    assert done == [1, 0]
    work.start("key", [1], done.append)
    work.stop()
    assert done == [1, 0, 1]


def cluster_of_many(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    cluster = Cluster()
    for number in range(TOPICS):
        cluster.topic(TopicName.parse(f"persistent://public/default/t{number}"))
    return cluster


def test_many_topics_follow_the_policies_of_their_namespace_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_many(monkeypatch)
    followed: list[int] = []

    def linked() -> int:
        return sum("jfk" in topic.replicators for topic in cluster.topics.loaded.values())

    def work() -> None:
        policies = Policies(replication_clusters=["ewr", "jfk"])
        cluster.resources.namespaces.update(NAMESPACE, lambda _: policies)
        watch()

    def watch() -> None:
        followed.append(linked())
        if followed[-1] < TOPICS:
            cluster.loop.call_soon(watch)

    cluster.do(work)
    assert followed[0] == 4
    assert max(after - before for before, after in pairwise(followed)) <= 4
    assert followed[-1] == TOPICS


def test_a_policy_of_a_topic_is_looked_for_in_topics_of_like_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_many(monkeypatch)
    looked_at: list[TopicName] = []
    partitioned_topic = vars(TopicName)["partitioned_topic"].fget

    def note(name: TopicName) -> TopicName:
        looked_at.append(name)
        found: TopicName = partitioned_topic(name)
        return found

    changed = TopicName.parse("persistent://public/default/t7")
    monkeypatch.setattr(TopicName, "partitioned_topic", property(note))
    cluster.do(lambda: cluster.resources.topic_policies.change(changed, messageTTLInSeconds=7))
    assert set(looked_at) == {changed}
    assert cluster.topic(changed).policies.message_ttl_s == 7


def test_topics_that_are_not_loaded_are_loaded_in_slices_once_they_are_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_many(monkeypatch)
    cluster.crash()
    policies = Policies(replication_clusters=["ewr", "jfk"])
    loaded: list[int] = []

    def work() -> None:
        cluster.resources.namespaces.update(NAMESPACE, lambda _: policies)
        loaded.append(len(cluster.topics.loaded))

    cluster.do(work)
    assert loaded == [4]
    assert len(cluster.topics.loaded) == TOPICS


@pytest.mark.parametrize("work", [Maintenance.measure, Maintenance.trim, Maintenance.maintain_deduplication])
def test_maintenance_is_done_in_slices(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[Maintenance], Coroutine[None, None, None]]
) -> None:
    cluster = cluster_of_many(monkeypatch)
    turns = Turns(cluster.loop)
    began = turns.number
    task = cluster.loop.create_task(work(Maintenance(cluster.environment, cluster.topics)))
    ended: list[int] = []
    task.add_done_callback(lambda _: ended.append(turns.number))
    cluster.loop.spin()
    assert ended[0] - began >= TOPICS // 4


def test_a_topic_that_is_unloaded_between_two_slices_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_many(monkeypatch)
    measured: list[str] = []
    last = TopicName.parse(f"persistent://public/default/t{TOPICS - 1}")

    def measuring(topic: Topic, _now: float) -> Iterator[None]:
        measured.append(str(topic.name))
        yield

    monkeypatch.setattr(maintenance, "measuring", measuring)
    cluster.loop.create_task(Maintenance(cluster.environment, cluster.topics).measure())
    cluster.loop.call_soon(cluster.topics.loaded.pop, last)
    cluster.loop.spin()
    assert len(measured) == TOPICS - 1
    assert str(last) not in measured


def turns_taken(cluster: Cluster, work: Coroutine[None, None, None]) -> int:
    turns, ended = Turns(cluster.loop), list[int]()
    began = turns.number
    cluster.loop.create_task(work).add_done_callback(lambda _: ended.append(turns.number))
    cluster.loop.spin()
    return ended[0] - began


def test_metrics_are_gathered_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of_many(monkeypatch)
    client = cluster.client()
    for number in range(TOPICS):
        client.subscribe(number, subscription=f"s{number}")
    client.produce()
    administration = Administration(cluster.environment, cluster.domains, "")
    texts: list[str] = []

    async def scrape() -> None:
        texts.append(b"".join(await exposition(administration)).decode())

    assert turns_taken(cluster, scrape()) >= 3 * TOPICS // 4
    of_topic = f'{{cluster="ewr",namespace="public/default",topic="{client.topic}"}}'
    assert f"pulsar_consumers_count{of_topic} {TOPICS}\n" in texts[0]
    assert f"pulsar_producers_count{of_topic} 1\n" in texts[0]
    assert f'pulsar_broker_subscriptions_count{{cluster="ewr"}} {TOPICS}.0\n' in texts[0]
    assert f'pulsar_topics_count{{cluster="ewr",namespace="public/default"}} {TOPICS + 1}.0\n' in texts[0]
    assert texts[0].count("pulsar_subscription_consumers_count{") == TOPICS


@pytest.mark.parametrize("kind", [Shared, Key_Shared, Failover], ids=["Shared", "Key_Shared", "Failover"])
def test_stats_of_many_consumers_are_gathered_in_slices(
    monkeypatch: pytest.MonkeyPatch, kind: pb.CommandSubscribe.SubType.ValueType
) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    cluster = Cluster()
    client = cluster.client()
    for number in range(TOPICS):
        client.subscribe(number, kind)
    administration = Administration(cluster.environment, cluster.domains, "")

    async def stats() -> None:
        found = await administration.topics.stats(client.topic, StatsOptions())
        assert len(found.subscriptions["worker"].consumers) == TOPICS

    assert turns_taken(cluster, stats()) >= TOPICS // 4


def test_tasks_that_share_their_slices_take_one_a_turn() -> None:
    loop = HandLoop()
    turns, seen = Turns(loop), list[tuple[int, int]]()
    shared = SharedSlices(loop, HandClock(loop))

    def steps(task: int) -> Generator[None, None, int]:
        for _ in range(3 * SLICE_ITEMS_MAX):
            seen.append((turns.number, task))
            yield
        return task

    tasks = [loop.create_task(shared.run(steps(task))) for task in range(5)]
    cancelled = loop.create_task(shared.run(steps(9)))
    loop.call_soon(loop.call_soon, cancelled.cancel)
    loop.spin()
    assert [task.result() for task in tasks] == [0, 1, 2, 3, 4]
    of_turns = [[task for turn, task in seen if turn == number] for number in sorted({turn for turn, _ in seen})]
    assert all(len(set(of_turn)) == 1 and len(of_turn) <= SLICE_ITEMS_MAX for of_turn in of_turns)
    assert cancelled.cancelled()


def test_requests_of_few_steps_share_the_slice_of_a_turn() -> None:
    loop = HandLoop()
    turns, seen = Turns(loop), list[int]()
    shared = SharedSlices(loop, HandClock(loop))

    def step() -> Generator[None, None, None]:
        seen.append(turns.number)
        yield

    async def many() -> None:
        for _ in range(2 * SLICE_ITEMS_MAX):
            await shared.run(step())

    async def one() -> None:
        await shared.run(step())

    tasks = [loop.create_task(work()) for work in (many, *[one] * SLICE_ITEMS_MAX)]
    loop.spin()
    assert all(task.done() for task in tasks)
    assert max(seen.count(number) for number in seen) <= SLICE_ITEMS_MAX


def test_partitions_follow_the_policies_of_their_topic_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    topic = TopicName.parse("persistent://public/default/parts")
    cluster.do(lambda: cluster.partition(topic, TOPICS))
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    turns, seen = Turns(cluster.loop), list[int]()
    for index in range(TOPICS):
        monkeypatch.setattr(
            cluster.topics.loaded[topic.partition(index)], "apply_policies", lambda: seen.append(turns.number)
        )
    cluster.do(lambda: cluster.resources.topic_policies.change(topic, message_ttl_in_seconds=5))
    assert len(seen) == TOPICS
    assert max(seen.count(number) for number in seen) == 4
