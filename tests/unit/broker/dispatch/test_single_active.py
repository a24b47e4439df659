"""Exclusive: one consumer receives everything within its permits."""

from __future__ import annotations

from magnetar.sim.cluster import Client, Cluster, Exclusive, Failover, Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb


def published(cluster: Cluster) -> Client:
    """Publish three batches of three messages each."""
    client = cluster.client()
    client.produce()
    client.say(
        *(
            commands.send(producer_id=1, sequence_id=n, num_messages=3, entry=entry(str(n), num_messages_in_batch=3))
            for n in range(3)
        )
    )
    client.names()
    return client


def test_permits_count_messages_and_may_be_exceeded_by_part_of_a_batch() -> None:
    client = published(Cluster())
    client.subscribe(kind=Exclusive, permits=4)
    assert client.messages() == ["0", "1"]
    client.say(commands.flow(consumer_id=1, message_permits=2))
    assert client.messages() == [], "the second batch took them in advance"
    client.say(commands.flow(consumer_id=1, message_permits=1))
    assert client.messages() == ["2"]


def test_redelivered_messages_have_the_consumers_epoch() -> None:
    client = published(Cluster())
    client.subscribe(kind=Exclusive, permits=9)
    assert [message.HasField("consumer_epoch") for message in client.take("MESSAGE")] == [False] * 3
    again = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=7)
    client.say(commands.encode(again), commands.flow(consumer_id=1, message_permits=9))
    assert [message.consumer_epoch for message in client.take("MESSAGE")] == [7] * 3


def again(consumer_id: int, epoch: int) -> bytes:
    """Request all messages again."""
    return commands.encode(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id, consumer_epoch=epoch))


def test_a_client_can_recognize_messages_that_were_sent_before_its_first_request_for_redelivery() -> None:
    client = published(Cluster())
    client.subscribe(kind=Exclusive, permits=9, consumer_epoch=0)
    client.say(again(1, 1), commands.flow(consumer_id=1, message_permits=9))
    sent = client.take("MESSAGE")
    assert [message.consumer_epoch for message in sent] == [0] * 3 + [1] * 3
    assert all(message.HasField("consumer_epoch") for message in sent), "a message without epoch is never dropped"


def test_a_consumer_that_becomes_active_has_the_epoch_that_it_requested_before() -> None:
    cluster = Cluster(settings={"activeConsumerFailoverDelayTimeMillis": 0})
    client = published(cluster)
    client.subscribe(kind=Failover, priority_level=1, consumer_epoch=0)
    assert client.messages() == ["0", "1", "2"]
    better = cluster.client()
    better.subscribe(2, kind=Failover, priority_level=0, permits=0)
    client.say(again(1, 1))
    assert client.messages() == [], "the other consumer is active"
    better.leave()
    assert [message.consumer_epoch for message in client.take("MESSAGE")] == [1] * 3, "clients drop lower epochs"


def test_a_late_request_for_redelivery_does_not_lower_the_epoch() -> None:
    client = published(Cluster())
    client.subscribe(kind=Exclusive, permits=3, consumer_epoch=4)
    client.say(again(1, 3), commands.flow(consumer_id=1, message_permits=3))
    assert [message.consumer_epoch for message in client.take("MESSAGE")] == [4, 4]


def test_messages_of_a_shared_consumer_have_no_epoch() -> None:
    client = published(Cluster())
    client.subscribe(kind=Shared, consumer_epoch=3)
    assert [message.HasField("consumer_epoch") for message in client.take("MESSAGE")] == [False] * 3


def test_a_consumer_replaces_one_that_leaves_while_it_is_examined_at_once() -> None:
    cluster = Cluster()
    client, other = published(cluster), cluster.client()
    client.subscribe(kind=Exclusive)
    other.subscribe(kind=Exclusive)
    assert (client.probes, other.messages()) == (1, [])
    client.leave()
    assert other.take("SUCCESS")
    other.say(commands.flow(consumer_id=1, message_permits=9))
    assert other.messages() == ["0", "1", "2"]


def switching(cluster: Cluster) -> tuple[Client, Client]:
    """Return a consumer that got all messages, and a better one that became active half a second ago."""
    old, new = published(cluster), cluster.client()
    old.subscribe(kind=Failover, priority_level=9)
    assert [position_of(message.message_id).entry_id for message in old.take("MESSAGE")] == [0, 1, 2]
    new.subscribe(kind=Failover, priority_level=8)
    cluster.loop.advance(0.5)
    assert new.messages() == []
    return old, new


def test_a_consumer_that_becomes_active_again_has_time_to_acknowledge() -> None:
    cluster = Cluster()
    old, new = switching(cluster)
    new.leave()
    assert old.messages() == [], "its acknowledgements may be on their way"
    old.ack(*(cluster.topic().ledger.first_position._replace(entry_id=entry_id) for entry_id in (0, 1)))
    cluster.loop.advance(0.6)
    assert old.messages() == ["2"]


def test_further_changes_do_not_extend_the_time_to_acknowledge() -> None:
    cluster = Cluster()
    switching(cluster)
    newest = cluster.client()
    newest.subscribe(kind=Failover, priority_level=7)
    cluster.loop.advance(0.6)
    assert newest.messages() == ["0", "1", "2"]


def test_a_consumer_that_comes_after_all_others_left_does_not_wait_for_them() -> None:
    cluster = Cluster()
    for consumer in switching(cluster):
        consumer.leave()
    newest = cluster.client()
    newest.subscribe(kind=Failover)
    assert newest.messages() == ["0", "1", "2"]
