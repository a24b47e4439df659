"""Exclusive: one consumer receives everything within its permits."""

from __future__ import annotations

from magnetar.sim.cluster import Client, Cluster, Exclusive, entry
from magnetar.wire import commands
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
