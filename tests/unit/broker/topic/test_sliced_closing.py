"""Many clients of a topic are closed in slices, and none gets a false response."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.broker.admin.administration import Administration
from magnetar.broker.dispatch import multiple_consumers
from magnetar.broker.loop import slices
from magnetar.broker.session.receiving import receive
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import TOPIC, Cluster, Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.sim.cluster import Client

MANY = 30
SLICE = 4
"""Items of a slice in these tests."""
FENCING = pb.ExclusiveWithFencing


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", SLICE)


def watch(
    cluster: Cluster, work: Callable[[], object], client: Client, look: Callable[[int], None] | None = None
) -> int:
    """Run ``work``, and count the commands to a client in each turn; return the number of turns with commands.

    ``look`` is called after each turn with the number of commands so far.
    """
    before, heard = len(client.heard), list[int]()

    def note() -> None:
        heard.append(len(client.heard) - before)
        if look is not None:
            look(heard[-1])

    def after_turn() -> None:
        note()
        if cluster.store.pending:
            cluster.store.commit()
            note()
        if len(heard) < 10 * MANY:
            cluster.loop.call_soon(after_turn)

    def begin() -> None:
        work()
        after_turn()

    cluster.do(begin)
    steps = [after - before for before, after in pairwise([0, *heard])]
    assert max(steps) <= SLICE
    return sum(step > 0 for step in steps)


def read(client: Client, *frames: bytes) -> None:
    """Make the broker read a client's output in the middle of a turn."""
    now = client.cluster.clock.monotonic()
    left = receive(client.session, client._connection.receive_gathering(b"".join(frames), now))
    while left:
        left = receive(client.session, left)


def crowd(cluster: Cluster, kind: pb.CommandSubscribe.SubType.ValueType = Shared) -> Client:
    """Return a client with many producers and consumers."""
    client = cluster.client()
    for number in range(MANY):
        client.produce(number, f"p{number}")
        client.subscribe(number, kind)
    client.names()
    return client


def backlog(cluster: Cluster) -> list[str]:
    reader = cluster.client()
    reader.subscribe(subscription="all")
    return reader.messages()


def test_an_unload_closes_producers_and_consumers_in_slices() -> None:
    cluster = Cluster()
    client, newcomer = crowd(cluster), cluster.client()
    asked: list[int] = []

    def look(told: int) -> None:
        if SLICE <= told < 2 * MANY and not asked:
            asked.append(told)
            body = pb.CommandProducer(topic=str(TOPIC), producer_id=1, request_id=77)
            read(newcomer, commands.encode(body))
            read(client, *(commands.send(producer_id=each, sequence_id=0, entry=entry("x")) for each in range(MANY)))

    topic = cluster.topic()
    assert watch(cluster, lambda: cluster.topics.unload(TOPIC), client, look) >= 2 * MANY // SLICE
    assert client.names() == ["CLOSE_PRODUCER"] * MANY + ["CLOSE_CONSUMER"] * MANY
    assert asked
    assert [each.request_id for each in newcomer.take("PRODUCER_SUCCESS")] == [77]
    assert cluster.topic() is not topic
    assert backlog(cluster) == [], "what came after the first was told is not stored"
    assert cluster.loop.problems == []


@pytest.mark.parametrize("kind", [Shared, Key_Shared, Failover], ids=["Shared", "Key_Shared", "Failover"])
def test_nothing_is_sent_to_a_consumer_or_taken_from_it_once_the_first_is_told(
    kind: pb.CommandSubscribe.SubType.ValueType,
) -> None:
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 0})
    publisher = cluster.client()
    publisher.produce()
    client = cluster.client()
    for number in range(MANY):
        client.subscribe(number, kind, permits=1, consumer_name=f"{number:02d}")
    client.names()
    publisher.send("a")
    (message,) = client.take("MESSAGE")
    subscription = cluster.subscription()

    def look(told: int) -> None:
        if told == SLICE:
            for number in range(MANY):
                read(client, commands.flow(consumer_id=number, message_permits=9))
                read(client, commands.ack(consumer_id=number, message_ids=[message.message_id]))

    watch(cluster, subscription.disconnect_consumers, client, look)
    assert client.names() == ["CLOSE_CONSUMER"] * MANY
    client.subscribe(99, kind)
    assert client.messages() == ["a"]


def test_a_seek_tells_many_consumers_in_slices_before_it_is_answered() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    for number in range(MANY):
        client.subscribe(number)
    client.names()
    first = cluster.topic().ledger.first_position
    seek = commands.seek(consumer_id=MANY - 1, request_id=5, position=first)
    assert watch(cluster, lambda: read(client, seek), client) >= MANY // SLICE
    assert client.names() == ["CLOSE_CONSUMER"] * MANY + ["SUCCESS"]
    client.subscribe(99)
    assert client.messages() == ["a", "b"]


def test_a_subscription_that_is_deleted_tells_its_consumers_in_slices() -> None:
    cluster = Cluster()
    client, last = cluster.client(), cluster.client()
    for number in range(MANY):
        client.subscribe(number)
    last.subscribe()
    client.names()
    assert last.names() == ["SUCCESS"]
    unsubscribe = commands.unsubscribe(consumer_id=1, request_id=9, force=True)
    assert watch(cluster, lambda: read(last, unsubscribe), client) >= MANY // SLICE
    assert last.names() == ["SUCCESS"]
    assert client.names() == ["CLOSE_CONSUMER"] * MANY
    assert not cluster.topic().subscriptions


def test_a_deletion_by_force_sends_clients_away_in_slices_and_newcomers_wait() -> None:
    cluster = Cluster()
    client, newcomer = crowd(cluster), cluster.client()
    client.send("a")
    for number in range(MANY):
        client.subscribe(MANY + number, subscription=f"s{number}")
    client.heard.clear()
    administration = Administration(cluster.environment, cluster.domains, "")
    asked: list[int] = []

    def look(told: int) -> None:
        if told == 3 * MANY and not asked:
            asked.append(told)
            read(newcomer, commands.encode(pb.CommandProducer(topic=str(TOPIC), producer_id=1, request_id=77)))
            assert newcomer.heard == []

    watch(cluster, lambda: cluster.loop.create_task(administration.topics.delete(TOPIC, force=True)), client, look)
    assert client.names() == ["CLOSE_PRODUCER"] * MANY + ["CLOSE_CONSUMER"] * 2 * MANY
    assert asked
    assert newcomer.names() == ["PRODUCER_SUCCESS"]
    assert not cluster.topic().subscriptions
    assert backlog(cluster) == []
    assert cluster.loop.problems == []


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_broker_that_stops_in_the_middle_closes_the_rest(is_deleted: bool) -> None:
    cluster = Cluster()
    client = crowd(cluster)
    client.send("a", "b")
    (first, second) = client.take("MESSAGE")
    client.say(commands.ack(consumer_id=first.consumer_id, message_ids=[first.message_id]))
    client.names()
    administration = Administration(cluster.environment, cluster.domains, "")

    def begin() -> None:
        if is_deleted:
            task = cluster.loop.create_task(administration.topics.delete(TOPIC, force=True))
            task.add_done_callback(lambda ended: ended.exception())
        else:
            cluster.topics.unload(TOPIC)

    cluster.loop.call_soon(begin)
    while not client.heard:
        cluster.loop.call_soon(cluster.loop.stop)
        cluster.loop.run_forever()
        if cluster.store.pending:
            cluster.loop.call_soon(cluster.store.commit)
    assert len(client.heard) < MANY
    cluster.loop.call_soon(lambda: cluster.loop.create_task(cluster.topics.stop()))
    cluster.settle()
    assert client.names() == ["CLOSE_PRODUCER"] * MANY + ["CLOSE_CONSUMER"] * MANY
    assert cluster.loop.problems == []
    cluster.crash()
    again = cluster.client()
    again.subscribe()
    assert again.messages() == ["b"], "nothing was deleted, and what was acknowledged is written"
    assert second.message_id != first.message_id


def test_a_deletion_that_is_given_up_leaves_the_topic_as_if_it_was_unloaded() -> None:
    cluster = Cluster()
    client = crowd(cluster)
    client.send("a")
    client.names()
    administration = Administration(cluster.environment, cluster.domains, "")
    task = cluster.loop.create_task(administration.topics.delete(TOPIC, force=True))
    for _ in range(3):
        cluster.loop.call_soon(cluster.loop.stop)
        cluster.loop.run_forever()
    task.cancel()
    cluster.settle()
    assert client.names() == ["CLOSE_PRODUCER"] * MANY + ["CLOSE_CONSUMER"] * MANY
    assert cluster.topic().subscriptions["worker"].backlog == 1
    client.produce()
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_producers_are_fenced_in_one_turn_and_told_in_slices() -> None:
    cluster = Cluster()
    client, fencing, newcomer = cluster.client(), cluster.client(), cluster.client()
    for number in range(MANY):
        client.produce(number, f"p{number}")
    client.names()
    body = pb.CommandProducer(topic=str(TOPIC), producer_id=1, request_id=7, producer_access_mode=FENCING)
    asked: list[int] = []

    def look(told: int) -> None:
        if told < MANY and not asked:
            asked.append(told)
            assert [each.producer_ready for each in fencing.take("PRODUCER_SUCCESS")] == [True]
            read(client, *(commands.send(producer_id=each, sequence_id=0, entry=entry("x")) for each in range(MANY)))
            read(newcomer, commands.encode(pb.CommandProducer(topic=str(TOPIC), producer_id=1, request_id=8)))
            assert newcomer.heard == []

    assert watch(cluster, lambda: read(fencing, commands.encode(body)), client, look) >= MANY // SLICE
    assert asked
    assert client.names() == ["CLOSE_PRODUCER"] * MANY
    assert newcomer.names() == ["ERROR"], "it waited, and the topic has an exclusive producer"
    fencing.send("y")
    assert backlog(cluster) == ["y"]
    assert list(cluster.topic().producers) == [fencing.session.producers[1].options.name]


def test_producers_that_wait_for_access_are_refused_in_slices() -> None:
    cluster = Cluster()
    owner, client, fencing = cluster.client(), cluster.client(), cluster.client()
    owner.produce(producer_access_mode=pb.Exclusive)
    for number in range(MANY):
        client.produce(number, f"p{number}", producer_access_mode=pb.WaitForExclusive)
    client.names()
    body = pb.CommandProducer(topic=str(TOPIC), producer_id=1, request_id=7, producer_access_mode=FENCING)
    assert watch(cluster, lambda: read(fencing, commands.encode(body)), client) >= MANY // SLICE
    assert client.names() == ["ERROR"] * MANY
    assert owner.names() == ["PRODUCER_SUCCESS", "CLOSE_PRODUCER"]
    assert not client.session.waiting


def test_publishers_are_dismissed_in_slices_and_those_who_come_back_wait() -> None:
    cluster = Cluster()
    client = cluster.client()
    for number in range(MANY):
        client.produce(number, f"p{number}")
    client.names()
    came_back: list[int] = []

    def look(told: int) -> None:
        if told < MANY and told and not came_back:
            came_back.append(told)
            body = pb.CommandProducer(topic=str(TOPIC), producer_id=99, request_id=99, producer_name="again")
            read(client, commands.encode(body))

    assert watch(cluster, cluster.topic().producers.dismiss, client, look) >= MANY // SLICE
    assert came_back
    assert client.names() == ["CLOSE_PRODUCER"] * MANY + ["PRODUCER_SUCCESS"]
    client.send("a", producer_id=99)
    assert client.names() == ["SEND_RECEIPT"]


@pytest.mark.parametrize("count", range(6 * SLICE, 7 * SLICE))
def test_a_waiting_producer_that_gets_the_topic_by_a_dismissal_of_others_can_publish(count: int) -> None:
    cluster = Cluster()
    client, waiting = cluster.client(), cluster.client()
    for number in range(count):
        client.produce(number, f"p{number}")
    waiting.produce(producer_access_mode=pb.WaitForExclusive)
    client.names()
    waiting.names()
    sent: list[int] = []

    def look(told: int) -> None:
        if waiting.heard and not sent:
            sent.append(told)
            read(waiting, commands.send(producer_id=1, sequence_id=0, entry=entry("x")))

    watch(cluster, cluster.topic().producers.dismiss, client, look)
    assert sent == [count], "it waits for all others"
    assert waiting.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT"]


@pytest.mark.parametrize("kind", [Shared, Key_Shared], ids=["Shared", "Key_Shared"])
def test_entries_for_redelivery_are_returned_in_parts_and_sent_in_order(
    monkeypatch: pytest.MonkeyPatch, kind: pb.CommandSubscribe.SubType.ValueType
) -> None:
    monkeypatch.setattr(multiple_consumers, "RETURNED_AT_ONCE_MAX", 4)
    cluster = Cluster()
    publisher, client = cluster.client(), cluster.client()
    publisher.produce()
    client.subscribe(1, kind, 1000)
    texts = [f"{number:02d}" for number in range(MANY)]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=entry(t, partition_key=t[1])) for t in texts])
    assert client.messages() == texts
    client.names()
    dispatcher = cluster.subscription().consumers.dispatcher
    assert isinstance(dispatcher, multiple_consumers.MultipleConsumersDispatcher)
    seen: list[tuple[int, bool]] = []

    def look() -> None:
        seen.append((dispatcher.replay_count, bool(client.heard)))
        if dispatcher._returning:
            cluster.loop.call_soon(look)

    def ask() -> None:
        read(client, commands.redeliver_unacknowledged_messages(consumer_id=1))
        read(client, commands.ack(consumer_id=1, message_ids=[message_id(first_position._replace(entry_id=20))]))
        look()

    first_position = cluster.topic().ledger.first_position
    cluster.do(ask)
    waiting = [count for count, _ in seen]
    assert max(after - before for before, after in pairwise([0, *waiting])) <= 4
    assert len(waiting) > MANY // 5
    assert not any(has_heard for _, has_heard in seen[:-1]), "nothing is sent before all is taken back"
    counts = [each.redelivery_count for each in (frame.command.message for frame in client.heard)]
    assert set(counts) == {1}
    assert client.messages() == [text for text in texts if text != "20"]
    (consumer,) = cluster.subscription().consumers
    assert consumer.unacked_messages == dispatcher._unacked_messages == MANY - 1


def test_redelivery_requests_of_a_closed_consumer_are_counted_again() -> None:
    cluster = Cluster()
    publisher, client = cluster.client(), cluster.client()
    publisher.produce()
    client.subscribe()
    publisher.send("a")
    client.names()
    client.session.consumers[1].permits = 0
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    client.leave()
    again = cluster.client()
    again.subscribe(kind=Exclusive)
    assert [each.redelivery_count for each in again.take("MESSAGE")] == [0]


def test_the_marks_of_deleted_subscriptions_are_deleted_in_slices() -> None:
    cluster = Cluster()
    topic = cluster.topic()
    for number in range(MANY):
        topic.create_subscription(f"s{number}", topic.log.before_first())
    cluster.settle()
    cursors = f"{managed_ledger_path(TOPIC)}/cursors"
    left: list[int] = []

    def look() -> None:
        cluster.store.commit()
        left.append(len(cluster.metadata.children(cursors)))
        if left[-1]:
            cluster.loop.call_soon(look)

    def begin() -> None:
        cluster.loop.create_task(
            Administration(cluster.environment, cluster.domains, "").topics.delete(TOPIC, force=True)
        )
        look()

    cluster.do(begin)
    assert left[0] == MANY
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 2 * SLICE, "one slice at once, one in its turn"


def test_those_who_waited_for_others_to_leave_are_let_in_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    topic = cluster.topic()
    topic.departures.begin()
    client = cluster.client()
    for number in range(20):
        client.subscribe(number, Shared)
    assert client.take("SUCCESS") == []
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    seen: list[int] = []

    def look() -> None:
        seen.append(len(client.session.consumers))
        if seen[-1] < 20:
            cluster.loop.call_soon(look)

    def end() -> None:
        topic.departures.end()
        look()

    cluster.do(end)
    assert max(after - before for before, after in pairwise(seen)) <= 4
    assert seen[-1] == 20


def test_a_broker_that_stops_closes_its_topics_in_slices() -> None:
    cluster = Cluster()
    client = crowd(cluster)
    client.send("a", "b")
    (first, _) = client.take("MESSAGE")
    client.say(commands.ack(consumer_id=first.consumer_id, message_ids=[first.message_id]))
    client.heard.clear()
    turns = watch(cluster, lambda: cluster.loop.create_task(cluster.topics.stop()), client)
    assert client.names() == ["CLOSE_PRODUCER"] * MANY + ["CLOSE_CONSUMER"] * MANY
    assert turns >= 2 * MANY / SLICE
    assert not cluster.topics.loaded
    assert cluster.loop.problems == []
    cluster.crash()
    again = cluster.client()
    again.subscribe()
    assert again.messages() == ["b"], "what was acknowledged is written"
