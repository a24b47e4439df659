"""Clients that came from another cluster use the message ids that they got there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import AdminError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.admin.logs import LogOperations
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive, Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries import ack_set
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Coroutine

BATCH = 4
"""Messages in the last entry of ewr."""


def at(entry_id: int) -> Position:
    """Return a position in ewr; the ledgers of jfk have higher ids."""
    return Position(1, entry_id)


def copies(client: Client, first: int, *entries: bytes) -> None:
    """Let the link of ewr bring entries, from this one on."""
    for entry_id, each in enumerate(entries, first):
        previous = at(entry_id - 1) if entry_id else EARLIEST
        origin = Origin("ewr", at(entry_id), previous, previous)
        client.say(commands.send(producer_id=2, sequence_id=entry_id, entry=stamp(each, origin)))


def result(cluster: Cluster, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
    return cluster.do(partial(cluster.loop.create_task, work)).result()


@pytest.fixture
def cluster() -> Cluster:
    """Return jfk with: a of ewr, own, b of ewr, batch of ewr. Its clients came from ewr."""
    found = Cluster("jfk", targets=["ewr"])
    client = found.client()
    client.produce()
    client.produce(2, name="pulsar.repl.ewr-->jfk")
    copies(client, 0, entry("a"))
    client.send("own")
    copies(client, 1, entry("b"), entry("batch", num_messages_in_batch=BATCH))
    assert len(client.receipts()) == 4
    result(found, LogOperations(found.environment, found.topics).set_former_cluster(TOPIC, "ewr"))
    return found


def places(cluster: Cluster) -> list[Position]:
    first = cluster.topic().ledger.first_position
    return [first._replace(entry_id=entry_id) for entry_id in range(4)]


def unacknowledged(cluster: Cluster) -> list[int]:
    """Return which of the four entries are not acknowledged."""
    state = cluster.subscription().cursor.state
    return [number for number, each in enumerate(places(cluster)) if not state.is_deleted(each)]


def test_single_acknowledgements(cluster: Cluster) -> None:
    client = cluster.client()
    client.subscribe(kind=Shared)
    client.ack(at(1))
    assert unacknowledged(cluster) == [0, 1, 3]
    client.ack(at(0), at(7), request_id=9)
    assert unacknowledged(cluster) == [1, 3]
    client.ack(places(cluster)[3])
    assert unacknowledged(cluster) == [1], "ids of this cluster count as before"
    assert len(client.take("ACK_RESPONSE")) == 1


def test_messages_of_a_batch(cluster: Cluster) -> None:
    client = cluster.client()
    client.subscribe(kind=Shared)
    consumer = next(iter(cluster.subscription().consumers))
    held = consumer.unacked_messages
    ids = [message_id(at(2), ack_set=ack_set.int_to_words(0b1100), batch_size=BATCH)]
    client.say(commands.ack(consumer_id=1, message_ids=ids))
    assert cluster.subscription().cursor.state.remaining(places(cluster)[3]) == 0b1100
    assert consumer.unacked_messages == held - 2


@pytest.mark.parametrize(("through", "left"), [(0, [1, 2, 3]), (1, [1, 3]), (2, [1]), (9, [1])])
def test_a_cumulative_acknowledgement(cluster: Cluster, through: int, left: list[int]) -> None:
    """It covers no message that was published here: nobody can tell whether its consumer had received it."""
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    client.ack(at(through), cumulative=True)
    assert unacknowledged(cluster) == left


def test_a_cumulative_acknowledgement_within_a_batch(cluster: Cluster) -> None:
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    ids = [message_id(at(2), ack_set=ack_set.int_to_words(0b1000), batch_size=BATCH)]
    client.say(commands.ack(consumer_id=1, message_ids=ids, cumulative=True))
    assert unacknowledged(cluster) == [1, 3]
    assert cluster.subscription().cursor.state.remaining(places(cluster)[3]) == 0b1000


@pytest.mark.parametrize(("start", "expected"), [(0, ["a", "own", "b", "batch"]), (1, ["b", "batch"]), (9, [])])
def test_a_reader_starts_and_a_consumer_seeks_at_its_message(cluster: Cluster, start: int, expected: list[str]) -> None:
    reader = cluster.client()
    reader.subscribe(
        kind=Exclusive,
        subscription="reader",
        durable=False,
        start_message_id=message_id(at(start)),
        initialPosition=pb.CommandSubscribe.Latest,
    )
    assert reader.messages() == expected
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    client.say(commands.encode(pb.CommandSeek(consumer_id=1, request_id=7, message_id=message_id(at(start)))))
    client.heard.clear()
    client.subscribe(2, kind=Exclusive)
    assert client.messages() == expected


def test_it_is_known_after_a_restart_and_a_trim_until_it_is_removed(cluster: Cluster) -> None:
    logs, below = LogOperations(cluster.environment, cluster.topics), places(cluster)[0].ledger_id
    cluster.replicate_to()
    cluster.topic().ledger.close_current()
    client = cluster.client()
    client.produce()
    client.send("later")
    cluster.trim()
    assert cluster.topic().ledger.first_position.ledger_id > below
    cluster.crash()
    logs = LogOperations(cluster.environment, cluster.topics)
    assert result(cluster, logs.former_cluster(TOPIC)).to_json() == {"cluster": "ewr", "ledgersBelow": below}
    result(cluster, logs.remove_former_cluster(TOPIC))
    cluster.crash()
    logs = LogOperations(cluster.environment, cluster.topics)
    assert result(cluster, logs.former_cluster(TOPIC)) is None
    result(cluster, logs.set_former_cluster(TOPIC, "ewr"))
    assert result(cluster, logs.former_cluster(TOPIC)).ledgers_below == below, "the first ledger, which was trimmed"


def test_ids_that_may_be_of_this_cluster_are_not_translated() -> None:
    cluster = Cluster("jfk", targets=["ewr"])
    client = cluster.client()
    client.produce(2, name="pulsar.repl.ewr-->jfk")
    client.say(commands.send(producer_id=2, sequence_id=0, entry=stamp(entry("a"), Origin("ewr", Position(7, 0)))))
    logs = LogOperations(cluster.environment, cluster.topics)
    with pytest.raises(AdminError, match="message ids of ewr cannot be translated: its ledger ids go up to 7"):
        result(cluster, logs.set_former_cluster(TOPIC, "ewr"))
    assert cluster.topic().log.former is None
