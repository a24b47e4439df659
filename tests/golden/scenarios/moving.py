"""Seeking, reading, and closing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pulsar

from tests.golden.stage import scenario
from tests.kit.messages import nothing_comes, numbered, publish, publish_in_batches, receive, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.golden.stage import Stage


def let_the_millisecond_pass() -> None:
    """Wait until the clock shows a later publish time."""
    now_ms = time.time_ns() // 1_000_000
    wait_until(lambda: time.time_ns() // 1_000_000 > now_ms, interval_s=0.001)


@scenario()
def seek_by_id(stage: Stage) -> None:
    """Seek to a message, to both ends, and into a batch."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s", start_message_id_inclusive=True)
    ids = publish(client, stage.topic(), numbered(3))
    messages = receive(consumer, 3, acknowledge=True)
    assert [message.message_id() for message in messages] == ids
    consumer.seek(ids[1])
    assert receive_data(consumer, 2) == [b"1", b"2"]
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_data(consumer, 3) == [b"0", b"1", b"2"]
    consumer.seek(pulsar.MessageId.latest)
    publish_in_batches(client, stage.topic(), numbered(3, first=3), per_batch=3)
    batch = receive(consumer, 3)
    consumer.seek(batch[1].message_id())
    assert receive_data(consumer, 2) == [b"4", b"5"]


@scenario()
def seek_by_time(stage: Stage) -> None:
    """Seek to the publish time of a message, before everything, and after everything."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    producer = client.create_producer(stage.topic())
    for payload in numbered(3):
        producer.send(payload)
        let_the_millisecond_pass()
    messages = receive(consumer, 3, acknowledge=True)
    consumer.seek(messages[1].publish_timestamp())
    assert receive_data(consumer, 2) == [b"1", b"2"]
    consumer.seek(1_600_000_000_000)
    assert receive_data(consumer, 3) == numbered(3)
    consumer.seek(messages[2].publish_timestamp() + 60_000)
    producer.send(b"3")
    assert receive_data(consumer, 1) == [b"3"]


@scenario()
def seek_of_one_for_all(stage: Stage) -> None:
    """When one of two Shared consumers seeks, both have to reconnect."""
    client = stage.client()
    options: dict[str, Any] = {"consumer_type": pulsar.ConsumerType.Shared}
    first = client.subscribe(stage.topic(), "s", consumer_name="first", **options)
    publish(client, stage.topic(), numbered(2))
    receive(first, 2)
    second = stage.client().subscribe(stage.topic(), "s", consumer_name="second", **options)
    second.seek(pulsar.MessageId.latest)
    stage.wait_for("FLOW", 4)
    first.close()
    assert nothing_comes(second)


@scenario()
def seek_in_an_empty_topic(stage: Stage) -> None:
    """Seek to both ends and to times of a topic without messages."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    consumer.seek(pulsar.MessageId.earliest)
    consumer.seek(pulsar.MessageId.latest)
    consumer.seek(1_600_000_000_000)
    publish(client, stage.topic(), numbered(1))
    assert receive_data(consumer, 1, acknowledge=True) == numbered(1)


@scenario()
def last_message_id(stage: Stage) -> None:
    """The last message of an empty topic, after a message, and after a batch."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    assert consumer.get_last_message_id().entry_id() == -1
    publish(client, stage.topic(), numbered(2))
    assert consumer.get_last_message_id().entry_id() == 1
    publish_in_batches(client, stage.topic(), numbered(3), per_batch=3)
    assert consumer.get_last_message_id().batch_index() == 2
    consumer.acknowledge(receive(consumer, 5)[0])
    consumer.close()
    again = client.subscribe(stage.topic(), "s")
    receive(again, 4)
    assert again.get_last_message_id().entry_id() == 2


@scenario()
def read(stage: Stage) -> None:
    """Readers from the earliest message, after a message, from the latest, and one that seeks."""
    client = stage.client()
    ids = publish(client, stage.topic(), numbered(4))
    reader = client.create_reader(stage.topic(), pulsar.MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen.append(reader.read_next().data())
    assert seen == numbered(4)
    reader.seek(ids[2])
    assert reader.read_next().data() == b"3"
    reader.close()
    behind = client.create_reader(stage.topic(), ids[1])
    assert behind.read_next().data() == b"2"
    latest = client.create_reader(stage.topic(), pulsar.MessageId.latest)
    assert not latest.has_message_available()
    publish(client, stage.topic(), numbered(1, first=4))
    assert latest.has_message_available()
    assert latest.read_next().data() == b"4"


@scenario()
def read_from_the_beginning_of_a_topic(stage: Stage) -> None:
    """A reader at the latest message of an empty topic gets the first message."""
    client = stage.client()
    reader = client.create_reader(stage.topic(), pulsar.MessageId.latest)
    assert not reader.has_message_available()
    publish(client, stage.topic(), numbered(1))
    stage.wait_for("MESSAGE", 1)
    assert reader.has_message_available()
    assert reader.read_next().data() == b"0"


@scenario()
def read_within_batches(stage: Stage) -> None:
    """Readers that start within a batch, and one with the flag for compacted topics."""
    client = stage.client()
    publish_in_batches(client, stage.topic(), numbered(6), per_batch=3)
    reader = client.create_reader(stage.topic(), pulsar.MessageId.earliest)
    ids = [reader.read_next().message_id() for _ in range(6)]
    assert not reader.has_message_available()
    behind = client.create_reader(stage.topic(), ids[1])
    assert behind.has_message_available()
    assert behind.read_next().data() == b"2"
    last = client.create_reader(stage.topic(), ids[5])
    assert not last.has_message_available()
    compacted = client.create_reader(stage.topic(), ids[4], is_read_compacted=True)
    assert compacted.read_next().data() == b"5"


@scenario()
def close(stage: Stage) -> None:
    """Producers and consumers are closed, a subscription is deleted, and a client disconnects without closing."""
    client = stage.client()
    producer = client.create_producer(stage.topic())
    consumer = client.subscribe(stage.topic(), "kept")
    leaving = client.subscribe(stage.topic(), "deleted")
    producer.send(b"1")
    producer.close()
    receive(consumer, 1)
    receive(leaving, 1)
    consumer.close()
    leaving.unsubscribe()
    shared: dict[str, Any] = {"consumer_type": pulsar.ConsumerType.Shared}
    held = client.subscribe(stage.topic(), "kept", **shared)
    assert receive_data(held, 1) == [b"1"]
    other = stage.client()
    waiting = other.subscribe(stage.topic(), "kept", **shared)
    client.shutdown()
    assert receive_data(waiting, 1, acknowledge=True) == [b"1"]
    waiting.unsubscribe()


@scenario()
def unload(stage: Stage) -> None:
    """The broker unloads a topic: its producers and consumers reconnect and continue."""
    client = stage.client()
    producer = client.create_producer(stage.topic())
    consumer = client.subscribe(stage.topic(), "s")
    producer.send(b"before")
    receive(consumer, 1, acknowledge=True)
    stage.wait_for("ACK", 1)
    consumer.get_last_message_id()  # the acknowledgement has arrived before its response
    stage.operate("unload", stage.topic())
    stage.wait_for("CLOSE_CONSUMER", 1)
    wait_until(lambda: producer.is_connected() and consumer.is_connected(), what="back again")
    producer.send(b"after")
    assert receive_data(consumer, 1, acknowledge=True) == [b"after"]


@scenario()
def reconnect(stage: Stage) -> None:
    """A connection is lost: producer and consumer reconnect, and unacknowledged messages are redelivered."""
    client = stage.client()
    producer = client.create_producer(stage.topic())
    options: dict[str, Any] = {"consumer_type": pulsar.ConsumerType.Shared}
    consumer = client.subscribe(stage.topic(), "s", **options)
    for payload in numbered(3):
        producer.send(payload)
    consumer.acknowledge(receive(consumer, 3)[1])
    stage.wait_for("ACK", 1)
    stage.cut()
    producer.send(b"3")
    assert sorted(receive_data(consumer, 3, acknowledge=True)) == [b"0", b"2", b"3"]
