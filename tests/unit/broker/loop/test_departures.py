"""The producers and consumers of a closed connection are removed in slices, and none counts as alive meanwhile."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.broker.dispatch import multiple_consumers
from magnetar.broker.loop import slices
from magnetar.broker.session.receiving import receive
from magnetar.cursor.ranges import Range
from magnetar.sim.cluster import Cluster, Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.sim.cluster import Client

MANY = 30


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)


def watch_leaving(cluster: Cluster, client: Client, count: Callable[[], int]) -> list[int]:
    """Return the number of remaining ones after each turn, from the close of the connection."""
    seen: list[int] = []

    def look() -> None:
        seen.append(count())
        if seen[-1]:
            cluster.loop.call_soon(look)

    def leave() -> None:
        client.session.closed()
        look()

    cluster.do(leave)
    return seen


def test_producers_leave_in_slices() -> None:
    cluster = Cluster()
    client = cluster.client()
    for number in range(MANY):
        client.produce(number, f"p{number}")
    left = watch_leaving(cluster, client, lambda: len(cluster.topics.loaded[client.topic].producers))
    assert left[0] == MANY - 4
    assert max(before - after for before, after in pairwise(left)) <= 4


@pytest.mark.parametrize("kind", [Shared, Key_Shared, Failover], ids=["Shared", "Key_Shared", "Failover"])
def test_consumers_leave_in_slices_and_what_they_held_is_sent_again_once(
    kind: pb.CommandSubscribe.SubType.ValueType,
) -> None:
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 0})
    publisher, leaving, staying = cluster.client(), cluster.client(), cluster.client()
    publisher.produce()
    for number in range(MANY):
        leaving.subscribe(number, kind, 100, consumer_name=f"{number:04d}")
    keys = [f"key-{number}" for number in range(100)]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=entry(k, partition_key=k)) for k in keys])
    assert sorted(leaving.messages()) == sorted(keys)
    staying.subscribe(1, kind, 1000, consumer_name="zz")
    topic = cluster.topics.loaded[leaving.topic]
    left = watch_leaving(cluster, leaving, lambda: len(topic.subscriptions["worker"].consumers) - 1)
    assert max(before - after for before, after in pairwise(left)) <= 4
    assert len(left) > MANY // 4
    assert sorted(staying.messages()) == sorted(keys)


def ends_with(cluster: Cluster, client: Client, newcomer: Client, frame: bytes) -> None:
    """Close the connection, and send a request of a new client in the same turn."""

    def end() -> None:
        client.session.closed()
        receive(newcomer.session, newcomer._connection.receive_gathering(frame, cluster.clock.monotonic()))

    cluster.do(end)


def test_an_exclusive_producer_waits_for_those_to_go_whose_connection_ended() -> None:
    cluster = Cluster()
    client, newcomer = cluster.client(), cluster.client()
    for number in range(MANY):
        client.produce(number, f"p{number}")
    body = pb.CommandProducer(topic=str(client.topic), producer_id=1, request_id=77, producer_access_mode=pb.Exclusive)
    ends_with(cluster, client, newcomer, commands.encode(body))
    assert [each.request_id for each in newcomer.take("PRODUCER_SUCCESS")] == [77]


def test_an_exclusive_consumer_waits_for_those_to_go_whose_connection_ended() -> None:
    cluster = Cluster()
    client, newcomer = cluster.client(), cluster.client()
    for number in range(MANY):
        client.produce(number, f"p{number}")
    client.subscribe(1, Exclusive)
    body = pb.CommandSubscribe(
        topic=str(client.topic), subscription="worker", subType=Exclusive, consumer_id=1, request_id=78
    )
    ends_with(cluster, client, newcomer, commands.subscribe(body))
    assert [each.request_id for each in newcomer.take("SUCCESS")] == [78]
    assert [each.session for each in cluster.subscription().consumers] == [newcomer.session]


def test_a_waiting_producer_whose_connection_ended_passes_the_topic_on() -> None:
    cluster = Cluster()
    owner, ending, waiting = cluster.client(), cluster.client(), cluster.client()
    owner.produce(1, "owner", producer_access_mode=pb.Exclusive)
    for number in range(MANY):
        ending.produce(number, f"p{number}", producer_access_mode=pb.WaitForExclusive)
    waiting.produce(1, "last", producer_access_mode=pb.WaitForExclusive)
    waiting.names()

    def end() -> None:
        ending.session.closed()
        owner.session.closed()

    cluster.do(end)
    assert [each.producer_ready for each in waiting.take("PRODUCER_SUCCESS")] == [True]
    assert list(cluster.topics.loaded[waiting.topic].producers) == ["last"]
    assert cluster.loop.problems == []


def test_receipts_that_nobody_waits_for_are_forgotten_once_for_all_who_leave() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    topic = cluster.topics.loaded[client.topic]
    looks: list[int] = []
    topic.lag_limit._forget_gone = lambda: looks.append(1)  # type: ignore[method-assign]
    topic.lag_limit._queue = deque([None])  # type: ignore[assignment]  # there is something to look at
    for _ in range(MANY):
        topic.lag_limit.left()
    topic.lag_limit._queue = None
    cluster.settle()
    assert looks == [1]


@pytest.mark.parametrize("kind", [Shared, Key_Shared], ids=["Shared", "Key_Shared"])
def test_entries_of_a_leaving_consumer_are_returned_in_parts_and_sent_in_order(
    monkeypatch: pytest.MonkeyPatch, kind: pb.CommandSubscribe.SubType.ValueType
) -> None:
    monkeypatch.setattr(multiple_consumers, "RETURNED_AT_ONCE_MAX", 4)
    cluster = Cluster()
    publisher, leaving, staying = cluster.client(), cluster.client(), cluster.client()
    publisher.produce()
    leaving.subscribe(1, kind, 1000)
    texts = [f"{number:02d}" for number in range(MANY)]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=entry(t, partition_key=t[1])) for t in texts])
    assert leaving.messages() == texts
    staying.subscribe(2, kind, 1000)
    staying.names()
    dispatcher = cluster.subscription().consumers.dispatcher
    assert isinstance(dispatcher, multiple_consumers.MultipleConsumersDispatcher)
    first = cluster.topic().ledger.next_position(cluster.topic().log.before_first())
    elsewhere = [first._replace(entry_id=7), first._replace(entry_id=20)]
    seen: list[tuple[int, int, bool]] = []

    def look() -> None:
        taken = sorted(dispatcher.taken())
        seen.append((dispatcher.replay_count, len(taken), bool(staying.heard)))
        if dispatcher._returning:
            cluster.loop.call_soon(look)

    def leave() -> None:
        leaving.session.closed()
        cluster.subscription().acknowledge_ranges([Range(each, each) for each in elsewhere])
        assert all(
            dispatcher._is_held(first._replace(entry_id=number)) != (number in (7, 20)) for number in range(MANY)
        )
        look()

    subscription = cluster.subscription()
    monkeypatch.setattr(cluster, "subscription", lambda: subscription)
    cluster.do(leave)
    assert seen[0] == (4, MANY - 2, False)
    waiting = [count for count, _, _ in seen]
    assert max(after - before for before, after in pairwise(waiting)) <= 4
    assert not any(has_heard for *_, has_heard in seen[:-1]), "nothing is sent before all is taken back"
    assert staying.messages() == [text for text in texts if text not in ("07", "20")]
    assert subscription.consumers
    assert sum(consumer.unacked_messages for consumer in subscription.consumers) == MANY - 2
    assert dispatcher._unacked_messages == MANY - 2
