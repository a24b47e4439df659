"""Acknowledgements of single messages of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.cluster import Client, Cluster, Exclusive, entry
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
