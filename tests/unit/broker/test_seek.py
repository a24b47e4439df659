"""Moving a subscription: what is delivered afterwards, and who is told."""

from __future__ import annotations

from typing import Any

from magnetar.base.position import EARLIEST, LATEST
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb


def published(cluster: Cluster, *texts: str) -> Client:
    client = cluster.client()
    client.produce()
    client.send(*texts)
    return client


def test_consumers_are_told_before_the_seek_is_answered() -> None:
    cluster = Cluster()
    client = published(cluster, "a", "b")
    positions = [position for _, position in client.receipts()]
    client.subscribe(kind=Exclusive)
    client.ack(*positions)
    client.names()
    client.say(commands.seek(consumer_id=1, request_id=9, position=positions[1]))
    assert client.names() == ["CLOSE_CONSUMER", "SUCCESS"]
    client.subscribe(kind=Exclusive)
    assert client.messages() == ["b"]


def test_seek_to_both_ends() -> None:
    cluster = Cluster()
    client = published(cluster, "a", "b")
    client.subscribe(kind=Exclusive)
    client.say(commands.seek(consumer_id=1, request_id=9, position=LATEST))
    client.messages()
    client.subscribe(kind=Exclusive)
    assert client.messages() == []
    client.say(commands.seek(consumer_id=1, request_id=9, position=EARLIEST))
    client.subscribe(kind=Exclusive)
    assert client.messages() == ["a", "b"]


def test_who_is_quick_to_come_back_is_let_in_once_the_seek_was_answered() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    batch = commands.send(producer_id=1, sequence_id=0, num_messages=3, entry=entry("abc", num_messages_in_batch=3))
    client.say(batch)
    ((_, position),) = client.receipts()
    client.subscribe(kind=Exclusive)
    client.messages()
    client.names()
    cluster.prompt = False
    body = pb.CommandSeek(consumer_id=1, request_id=98, message_id=message_id(position, ack_set=[0b110]))
    client.say(commands.encode(body))
    client.subscribe(kind=Exclusive)
    assert client.names() == ["CLOSE_CONSUMER"]
    cluster.prompt = True
    cluster.settle()
    seek, subscribe = client.take("SUCCESS")
    assert (seek.request_id, subscribe.request_id) == (98, client.request_id() - 1)
    assert client.take("MESSAGE") == []
    client.say(commands.flow(consumer_id=1, message_permits=1))
    (message,) = client.take("MESSAGE")
    assert list(message.ack_set) == [0b110]


def test_a_reader_that_seeks_by_time_comes_back_to_where_it_sought() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    for number in range(3):
        dated = entry(str(number), publish_time=1000 + number)
        client.say(commands.send(producer_id=1, sequence_id=number, entry=dated))
    reader: dict[str, Any] = {
        "kind": Exclusive,
        "subscription": "reader-1",
        "durable": False,
        "start_message_id": message_id(EARLIEST),
    }
    client.subscribe(**reader)
    assert client.messages() == ["0", "1", "2"]
    client.say(commands.seek(consumer_id=1, request_id=9, publish_time_ms=1002))
    client.subscribe(**reader)
    assert client.messages() == ["2"]


def test_a_seek_that_comes_to_an_end_after_an_unload_fails_and_moves_nothing() -> None:
    cluster = Cluster()
    client = published(cluster, "a", "b", "c")
    positions = [position for _, position in client.receipts()]
    client.subscribe(kind=Exclusive)
    client.ack(*positions)
    cluster.loop.advance(1)
    cluster.settle()
    client.names()
    subscription = cluster.subscription()
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    seeking = cluster.loop.start(subscription.reset(EARLIEST))
    cluster.settle()
    assert "unloaded" in str(seeking.exception())
    cluster.crash()
    assert cluster.subscription().backlog == 0


def test_a_reader_that_just_leaves_leaves_nothing_behind() -> None:
    cluster = Cluster()
    client = published(cluster, "a")
    client.subscribe(kind=Exclusive, durable=False, subscription="reader-1")
    client.leave()
    assert cluster.topic().subscriptions == {}
