"""Non-durable subscriptions, which do not prevent the trimming of entries that they have not acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import Client, Cluster, Exclusive, Key_Shared, Shared
from magnetar.wire import commands
from magnetar.wire.message_id import message_id

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def delivered(cluster: Cluster, kind: pb.CommandSubscribe.SubType.ValueType) -> tuple[Client, list[Position]]:
    """Publish five messages, two in each ledger, to a non-durable subscription; return their positions as well."""
    client = cluster.client()
    client.produce()
    client.subscribe(kind=kind, durable=False)
    for number, text in enumerate("abcde"):
        client.send(text, first=number)
    assert client.messages() == list("abcde")
    return client, [position for _, position in client.receipts()]


def small_ledgers() -> Cluster:
    return Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=2, min_rollover_ms=0))


@pytest.mark.parametrize("kind", [Shared, Key_Shared])
def test_later_messages_are_redelivered(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster = small_ledgers()
    client, positions = delivered(cluster, kind)
    cluster.trim()
    ids = [message_id(position) for position in positions]
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids))
    assert client.messages() == ["e"], "the others are trimmed"


@pytest.mark.parametrize("kind", [Shared, Key_Shared])
def test_trimmed_messages_in_the_replay_queue_do_not_stop_later_ones(
    kind: pb.CommandSubscribe.SubType.ValueType,
) -> None:
    cluster = small_ledgers()
    client, _ = delivered(cluster, kind)
    client.subscribe(2, kind=kind, durable=False, permits=0)
    client.say(commands.close_consumer(consumer_id=1, request_id=client.request_id()))
    cluster.trim()
    client.say(commands.flow(consumer_id=2, message_permits=9))
    assert client.messages() == ["e"]


def test_trimmed_messages_are_not_held() -> None:
    cluster = small_ledgers()
    client, positions = delivered(cluster, Shared)
    cluster.trim()
    (consumer,) = cluster.subscription().consumers
    assert consumer.unacked_messages == 1
    client.ack(*positions)
    assert consumer.unacked_messages == 0


@pytest.mark.parametrize("acknowledged", [(), (1,), (1, 3), (0, 1, 2), (4,)])
def test_the_backlog_is_what_the_log_has(acknowledged: tuple[int, ...]) -> None:
    cluster = small_ledgers()
    client, positions = delivered(cluster, Exclusive)
    client.ack(*(positions[index] for index in acknowledged))
    cluster.trim()
    left = [] if 4 in acknowledged else ["e"]
    assert cluster.subscription().backlog == len(left)
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    assert client.messages() == left
