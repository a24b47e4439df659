"""Consumers that ask where messages were published."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import ServerError
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.sim.cluster import Client, Cluster, Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.entries.original_position import ORIGINAL_POSITION, ORIGINAL_POSITION_METADATA
from magnetar.wire.proto import pulsar_api_pb2 as pb


def asking(value: str = "true") -> list[pb.KeyValue]:
    return [pb.KeyValue(key=ORIGINAL_POSITION_METADATA, value=value)]


def received(client: Client) -> list[str | None]:
    """Return the property of each message received since the last call."""
    messages = [frame for frame in client.heard if frame.command.type == pb.BaseCommand.MESSAGE]
    client.take("MESSAGE")
    properties = [{each.key: each.value for each in parse_metadata(frame.body).properties} for frame in messages]
    return [each.get(ORIGINAL_POSITION) for each in properties]


def log_of_both() -> Cluster:
    """Return a cluster with two own entries and one of ewr."""
    cluster = Cluster("jfk", targets=["ewr"])
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    client.produce(2, name="pulsar.repl.ewr-->jfk")
    copy = stamp(entry("c"), Origin("ewr", Position(7, 8)))
    client.say(commands.send(producer_id=2, sequence_id=0, entry=copy))
    assert len(client.receipts()) == 3
    return cluster


@pytest.mark.parametrize("kind", [Exclusive, Failover, Shared, Key_Shared])
def test_a_consumer_that_asks_gets_the_property_also_with_redelivered_messages(kind: Any) -> None:  # noqa: ANN401
    cluster = log_of_both()
    client = cluster.client()
    client.subscribe(kind=kind, metadata=asking())
    ledger_id, _ = cluster.topic().ledger.first_position
    expected = [f"jfk:{ledger_id}:0", f"jfk:{ledger_id}:1", "ewr:7:8"]
    assert received(client) == expected
    client.say(commands.encode(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)))
    assert received(client) == expected


def test_other_consumers_do_not() -> None:
    client = log_of_both().client()
    client.subscribe(kind=Exclusive)
    client.subscribe(2, kind=Exclusive, subscription="other", metadata=asking("false"))
    assert received(client) == [None] * 6


def test_any_other_value_is_refused() -> None:
    client = log_of_both().client()
    client.subscribe(metadata=asking("yes"))
    (error,) = client.take("ERROR")
    assert error.error == ServerError.MetadataError
    assert error.message == f"{ORIGINAL_POSITION_METADATA} is 'yes'\nhint: it is true or false"


def test_messages_of_non_persistent_topics_have_no_positions() -> None:
    client = Cluster().client()
    client.topic = TopicName.parse("non-persistent://public/default/news")
    client.subscribe(metadata=asking())
    (error,) = client.take("ERROR")
    assert error.error == ServerError.NotAllowedError
    assert "non-persistent topics have no positions" in error.message
