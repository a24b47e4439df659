"""Acknowledgements of single messages of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.cluster import Client, Cluster, Exclusive, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id, position_of

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def published(cluster: Cluster, batches: int, size: int) -> Client:
    """Publish batches of ``size`` messages each."""
    client = cluster.client()
    client.produce()
    client.say(
        *(
            commands.send(
                producer_id=1,
                sequence_id=size * number,
                num_messages=size,
                entry=entry(str(number), num_messages_in_batch=size),
            )
            for number in range(batches)
        )
    )
    return client


def sent(client: Client) -> list[pb.CommandMessage]:
    return client.take("MESSAGE")


@pytest.mark.parametrize(("is_kept", "remaining"), [(True, [0b1100]), (False, [])])
def test_a_cumulative_acknowledgement_within_a_batch_acknowledges_no_later_message(
    is_kept: bool,
    remaining: list[int],
) -> None:
    cluster = Cluster(settings={"acknowledgmentAtBatchIndexLevelEnabled": is_kept})
    client = published(cluster, batches=3, size=4)
    client.subscribe(kind=Exclusive)
    second = position_of(sent(client)[1].message_id)
    client.say(commands.ack(consumer_id=1, message_ids=[message_id(second, ack_set=[0b1100])], cumulative=True))
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    again = sent(client)
    assert [position_of(message.message_id).entry_id for message in again] == [1, 2], "the first batch is acknowledged"
    assert list(again[0].ack_set) == remaining


@pytest.mark.parametrize("kind", [Shared, Key_Shared])
@pytest.mark.parametrize("limit", ["maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"])
def test_acknowledged_messages_of_a_batch_do_not_count_as_unacknowledged(
    kind: pb.CommandSubscribe.SubType.ValueType, limit: str
) -> None:
    cluster = Cluster(settings={limit: 8})
    client = published(cluster, batches=4, size=4)
    client.subscribe(kind=kind)
    held = [message.message_id for message in sent(client)]
    assert len(held) == 2, "the limit"
    client.say(commands.ack(consumer_id=1, message_ids=[message_id(position_of(each), ack_set=[1]) for each in held]))
    assert len(sent(client)) == 2, "two of eight are unacknowledged"
    (consumer,) = cluster.subscription().consumers
    assert consumer.unacked_messages == 2 + 8
    client.say(commands.ack(consumer_id=1, message_ids=held))
    assert (consumer.unacked_messages, consumer.messages_acked) == (8, 8)


def test_a_batch_that_is_acknowledged_in_part_twice_counts_once() -> None:
    cluster = Cluster()
    client = published(cluster, batches=1, size=4)
    client.subscribe()
    (position,) = (position_of(message.message_id) for message in sent(client))
    (consumer,) = cluster.subscription().consumers
    for remaining, unacked in ((0b1100, 2), (0b1110, 2), (0b0110, 1), (0b1001, 0)):
        client.say(commands.ack(consumer_id=1, message_ids=[message_id(position, ack_set=[remaining])]))
        assert consumer.unacked_messages == unacked
    assert consumer.messages_acked == 4


def test_a_partly_acknowledged_batch_is_given_to_another_consumer_with_the_rest() -> None:
    cluster = Cluster()
    client = published(cluster, batches=1, size=4)
    client.subscribe()
    (position,) = (position_of(message.message_id) for message in sent(client))
    client.say(commands.ack(consumer_id=1, message_ids=[message_id(position, ack_set=[0b1100])]))
    client.subscribe(2)
    client.say(commands.close_consumer(consumer_id=1, request_id=client.request_id()))
    assert [list(message.ack_set) for message in sent(client)] == [[0b1100]]
    (consumer,) = cluster.subscription().consumers
    assert consumer.unacked_messages == 2
    client.say(commands.ack(consumer_id=2, message_ids=[message_id(position)]))
    assert consumer.unacked_messages == 0
