"""Non-persistent topics: who gets a message, and what happens to those that nobody can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import Client, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.broker.non_persistent.topic import NonPersistentTopic

NEWS = TopicName.parse("non-persistent://public/default/news")
EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared
FIRST = Position(0, 0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def connected(cluster: Cluster) -> Client:
    client = cluster.client()
    client.topic = NEWS
    return client


def publisher(cluster: Cluster) -> Client:
    client = connected(cluster)
    client.produce()
    client.heard.clear()
    return client


def subscriber(cluster: Cluster, kind: pb.CommandSubscribe.SubType.ValueType = SHARED, **fields: Any) -> Client:  # noqa: ANN401 - those of Client.subscribe
    client = connected(cluster)
    client.subscribe(kind=kind, **fields)
    assert not client.take("ERROR")
    return client


def news(cluster: Cluster) -> NonPersistentTopic:
    return cluster.domains.non_persistent.loaded[NEWS]


def test_every_subscription_gets_every_message_and_every_receipt_has_the_first_id(cluster: Cluster) -> None:
    one, other = subscriber(cluster, subscription="one"), subscriber(cluster, subscription="other")
    client = publisher(cluster)
    client.send("a", "b")
    assert client.receipts() == [(0, FIRST), (1, FIRST)]
    ids = {(each.message_id.ledgerId, each.message_id.entryId) for each in one.take("MESSAGE")}
    assert ids == {(0, 0)}
    assert other.messages() == ["a", "b"]
    assert not cluster.store.pending
    assert not any(cluster.resources.topics.of_namespace(NEWS.namespace_name))


def test_messages_before_the_first_consumer_are_gone(cluster: Cluster) -> None:
    client = publisher(cluster)
    client.send("early")
    assert client.receipts() == [(0, FIRST)]
    assert subscriber(cluster).messages() == []
    assert news(cluster).dropped == 0


def test_messages_without_permits_are_dropped_and_counted(cluster: Cluster) -> None:
    consumer, client = subscriber(cluster, permits=2), publisher(cluster)
    client.send("a", "b", "c", "d")
    assert consumer.messages() == ["a", "b"]
    assert news(cluster).dropped == 2
    consumer.say(commands.flow(consumer_id=1, message_permits=5))
    assert consumer.messages() == []
    client.send("e", first=4)
    assert consumer.messages() == ["e"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
def test_a_batch_uses_as_many_permits_as_it_has_messages(
    cluster: Cluster, kind: pb.CommandSubscribe.SubType.ValueType
) -> None:
    consumer, client = subscriber(cluster, kind, permits=3), publisher(cluster)
    for first in (0, 2, 4):
        batch = entry("batch", num_messages_in_batch=2)
        client.say(commands.send(producer_id=1, sequence_id=first, entry=batch, num_messages=2))
    assert consumer.messages() == ["batch", "batch"]
    assert news(cluster).dropped == 2


def test_a_consumer_that_does_not_read_gets_nothing(cluster: Cluster) -> None:
    consumer, client = subscriber(cluster), publisher(cluster)
    cluster.do(lambda: consumer.session.writable(is_writable=False))
    client.send("a")
    assert news(cluster).dropped == 1
    cluster.do(lambda: consumer.session.writable(is_writable=True))
    client.send("b", first=1)
    assert consumer.messages() == ["b"]


def test_shared_consumers_take_turns_and_better_priorities_come_first(cluster: Cluster) -> None:
    low = subscriber(cluster, priority_level=1)
    high = [subscriber(cluster, priority_level=0, permits=2) for _ in range(2)]
    client = publisher(cluster)
    client.send(*"abcdef")
    assert sorted(len(each.messages()) for each in high) == [2, 2]
    assert low.messages() == ["e", "f"]


def test_an_exclusive_subscription_has_one_consumer(cluster: Cluster) -> None:
    first, second = subscriber(cluster, EXCLUSIVE), connected(cluster)
    second.subscribe(kind=EXCLUSIVE)
    assert first.session.liveness is not None
    cluster.do(first.session.liveness.set)
    assert [each.error for each in second.take("ERROR")] == [pb.ConsumerBusy]
    second.subscribe(consumer_id=2)
    assert [each.message for each in second.take("ERROR")] == ["Subscription is of different type"]


def test_failover_has_one_active_consumer_and_a_successor(cluster: Cluster) -> None:
    consumers = [subscriber(cluster, FAILOVER, consumer_name=name) for name in ("a", "b")]
    client = publisher(cluster)
    client.send("x")
    (active,) = [each for each in consumers if each.messages() == ["x"]]
    (standby,) = [each for each in consumers if each is not active]
    assert [each.is_active for each in standby.take("ACTIVE_CONSUMER_CHANGE")][-1] is False
    active.leave()
    client.send("y", first=1)
    assert standby.messages() == ["y"]
    assert [each.is_active for each in standby.take("ACTIVE_CONSUMER_CHANGE")] == [True]


def test_messages_of_a_key_go_to_one_consumer(cluster: Cluster) -> None:
    consumers = [subscriber(cluster, KEY_SHARED, consumer_name=f"c{number}") for number in range(3)]
    client = publisher(cluster)
    for number in range(60):
        keyed = entry(f"key-{number % 10}", partition_key=f"key-{number % 10}")
        client.say(commands.send(producer_id=1, sequence_id=number, entry=keyed))
    received = [each.messages() for each in consumers]
    assert sum(map(len, received)) == 60
    for number in range(10):
        assert sorted(each.count(f"key-{number}") for each in received) == [0, 0, 6]


def test_a_message_of_a_key_whose_consumer_has_no_permits_is_dropped(cluster: Cluster) -> None:
    meta = [
        pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=first, end=last)])
        for first, last in ((0, 30_000), (30_001, 65_535))
    ]
    consumers = [subscriber(cluster, KEY_SHARED, permits=1, keySharedMeta=each) for each in meta]
    client = publisher(cluster)
    for number in range(50):
        keyed = entry(f"{number}", partition_key=f"{number}")
        client.say(commands.send(producer_id=1, sequence_id=number, entry=keyed))
    assert [len(each.messages()) for each in consumers] == [1, 1]
    assert news(cluster).dropped == 48


def test_acknowledgements_redelivery_and_seek_have_no_effect(cluster: Cluster) -> None:
    consumer, client = subscriber(cluster), publisher(cluster)
    client.send("a")
    consumer.heard.clear()
    consumer.ack(FIRST, request_id=77)
    assert [each.request_id for each in consumer.take("ACK_RESPONSE")] == [77]
    consumer.ack(FIRST)
    consumer.say(commands.encode(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)))
    for request_id, target in ((78, {"message_id": message_id(EARLIEST)}), (79, {"message_publish_time": 1})):
        consumer.say(commands.encode(pb.CommandSeek(consumer_id=1, request_id=request_id, **target)))
    assert [each.request_id for each in consumer.take("SUCCESS")] == [78, 79]
    consumer.say(commands.encode(pb.CommandGetLastMessageId(consumer_id=1, request_id=80)))
    assert [each.error for each in consumer.take("ERROR")] == [pb.UnknownError]
    consumer.say(commands.encode(pb.CommandConsumerStats(consumer_id=1, request_id=81)))
    (stats,) = consumer.take("CONSUMER_STATS_RESPONSE")
    assert (stats.type, stats.msgBacklog, stats.unackedMessages) == ("Shared", 0, 0)
    assert consumer.messages() == []


def test_a_subscription_ends_with_its_last_consumer(cluster: Cluster) -> None:
    first, second = subscriber(cluster), subscriber(cluster)
    first.leave()
    assert list(news(cluster).subscriptions) == ["worker"]
    second.say(commands.encode(pb.CommandCloseConsumer(consumer_id=1, request_id=5)))
    assert [each.request_id for each in second.take("SUCCESS")][-1] == 5
    assert news(cluster).subscriptions == {}
    third = subscriber(cluster)
    third.say(commands.encode(pb.CommandUnsubscribe(consumer_id=1, request_id=6)))
    assert [each.request_id for each in third.take("SUCCESS")][-1] == 6
    assert news(cluster).subscriptions == {}


def test_invalid_entries_are_refused_in_the_order_of_the_receipts(cluster: Cluster) -> None:
    consumer, client = subscriber(cluster), publisher(cluster)
    damaged = bytearray(entry("b" * 20))
    damaged[-1] ^= 1
    frames = [entry("a"), bytes(damaged), entry("c", marker_type=10), entry("d")]
    client.say(*[commands.send(producer_id=1, sequence_id=at, entry=each) for at, each in enumerate(frames)])
    assert client.names() == ["SEND_RECEIPT", "SEND_ERROR", "SEND_ERROR", "SEND_RECEIPT"]
    assert consumer.messages() == ["a", "d"]


def test_a_message_for_later_is_delivered_at_once(cluster: Cluster) -> None:
    consumer, client = subscriber(cluster), publisher(cluster)
    later = entry("later", deliver_at_time=int((cluster.clock.now() + 1000) * 1000))
    client.say(commands.send(producer_id=1, sequence_id=0, entry=later))
    assert consumer.messages() == ["later"]
