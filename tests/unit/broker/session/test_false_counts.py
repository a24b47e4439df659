"""Counts in client messages: limited by the stored bytes, and refused otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ServerError
from magnetar.base.limits import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_SIZE_MIN, UNREAD_BATCH_MESSAGES_MAX
from magnetar.sim.cluster import Cluster, Exclusive, Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries import ack_set
from magnetar.wire.entries.batch import BatchedMessage, encode_batch
from magnetar.wire.entries.entry import build_entry, messages_in
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.sim.cluster import Client

HUGE = 2**31 - 1


def batch(claimed: int, payload: bytes = b"x" * 18, **fields: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=claimed)
    for name, value in fields.items():
        setattr(metadata, name, value)
    return build_entry(metadata, payload)


def cluster_with(stored: bytes, *, cached: bool = True) -> tuple[Cluster, Position]:
    cluster = Cluster()
    producer = cluster.client()
    producer.produce()
    producer.say(commands.send(producer_id=1, sequence_id=0, entry=stored, num_messages=3))
    ((_, position),) = producer.receipts()
    cluster.store.cached = cached
    return cluster, position


def acknowledge(client: Client, position: Position, words: list[int], batch_size: int) -> None:
    data = pb.MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, ack_set=words, batch_size=batch_size
    )
    client.say(commands.ack(consumer_id=1, message_ids=[data], request_id=7))
    assert len(client.take("ACK_RESPONSE")) == 1


@pytest.mark.parametrize(
    "forged",
    [
        batch(HUGE),
        batch(4),
        batch(HUGE, compression=pb.ZLIB, uncompressed_size=18),
        batch(HUGE, compression=pb.ZLIB, uncompressed_size=2**32 - 1),
        batch(HUGE, event_time=1),
        batch(HUGE, num_chunks_from_msg=2),
    ],
)
def test_a_batch_that_cannot_hold_its_messages_is_refused(forged: bytes) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.say(commands.send(producer_id=1, sequence_id=0, entry=forged))
    assert [error.error for error in client.take("SEND_ERROR")] == [ServerError.MetadataError]
    assert client.receipts() == []


def test_the_smallest_messages_fit() -> None:
    own = pb.SingleMessageMetadata(payload_size=0)
    payload = encode_batch([BatchedMessage(own, b"")] * 3)
    assert len(payload) == 3 * BATCHED_MESSAGE_SIZE_MIN
    cluster, _ = cluster_with(batch(3, payload))
    client = cluster.client()
    client.subscribe(permits=10)
    assert [consumer.permits for consumer in cluster.subscription().consumers] == [7]


def test_no_entry_has_more_messages_than_the_limit() -> None:
    assert messages_in(batch(HUGE)) == messages_in(batch(HUGE, deliver_at_time=1)) == BATCH_MESSAGES_MAX
    assert messages_in(batch(-5)) == 1


@pytest.mark.parametrize("kind", [Shared, Exclusive], ids=["Shared", "Exclusive"])
@pytest.mark.parametrize("batch_size", [HUGE, 3, 0, -1, 1])
def test_the_entry_says_how_many_messages_it_has(kind: pb.CommandSubscribe.SubType.ValueType, batch_size: int) -> None:
    cluster, position = cluster_with(batch(3))
    client = cluster.client()
    client.subscribe(kind=kind)
    acknowledge(client, position, [-2, -1], batch_size)
    assert cluster.subscription().cursor.state.remaining(position) == 0b110
    acknowledge(client, position, [-8], batch_size)
    assert cluster.subscription().backlog == 0


def test_of_an_entry_that_is_not_in_memory_a_client_is_believed_within_a_limit() -> None:
    cluster, position = cluster_with(batch(3), cached=False)
    client = cluster.client()
    client.subscribe()
    state = cluster.subscription().cursor.state
    for batch_size in (HUGE, UNREAD_BATCH_MESSAGES_MAX + 1):
        acknowledge(client, position, [-2], batch_size)
        assert state.remaining(position) is None
    acknowledge(client, position, [-2] * (UNREAD_BATCH_MESSAGES_MAX // ack_set.WORD_BITS + 1), 0)
    assert state.remaining(position) is None
    acknowledge(client, position, [-2], 3)
    assert state.remaining(position) == 0b110
    client.ack(position, request_id=9)
    assert cluster.subscription().backlog == 0


@pytest.mark.parametrize("cached", [True, False])
def test_a_seek_into_a_batch_wants_none_but_its_messages(*, cached: bool) -> None:
    cluster, position = cluster_with(batch(3), cached=cached)
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    target = pb.MessageIdData(ledgerId=position.ledger_id, entryId=position.entry_id, ack_set=[-2] * 1000)
    client.say(commands.encode(pb.CommandSeek(consumer_id=1, request_id=8, message_id=target)))
    cluster.settle()
    assert cluster.subscription().cursor.state.remaining(position) == 0b110


def test_an_entry_that_is_no_batch_has_one_message() -> None:
    cluster, position = cluster_with(entry("single"))
    client = cluster.client()
    client.subscribe()
    acknowledge(client, position, [-2], HUGE)
    assert cluster.subscription().backlog == 0
