"""Seek by message id, by publish time, and to both ends of the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from tests.kit.messages import (
    nothing_comes,
    numbered,
    publish,
    publish_in_batches,
    receive,
    receive_data,
)
from tests.kit.raw import RawConnection, entry
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def test_seek_back_to_an_id_delivers_what_follows_it(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ids = publish(client, topic, numbered(10))
    receive(consumer, 10, acknowledge=True)
    consumer.seek(ids[4])
    assert receive_data(consumer, 5) == numbered(5, first=5)


def test_seek_forward_skips(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=2)
    ids = publish(client, topic, numbered(20))
    consumer.seek(ids[14])
    assert receive_data(consumer, 5, acknowledge=True) == numbered(5, first=15)
    wait_until(lambda: broker.rest.backlog(topic, "s") <= 1)


def test_seek_including_the_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    ids = publish(client, topic, numbered(10))
    consumer.seek(ids[7])
    assert receive_data(consumer, 3) == [b"7", b"8", b"9"]


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared, ConsumerType.Failover])
def test_seek_to_the_earliest(client: pulsar.Client, topic: str, kind: ConsumerType) -> None:
    consumer = client.subscribe(topic, "s", kind)
    publish(client, topic, numbered(5))
    receive(consumer, 5, acknowledge=True)
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_data(consumer, 5) == numbered(5)


def test_seek_to_the_latest(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(5))
    consumer.seek(pulsar.MessageId.latest)
    assert nothing_comes(consumer)
    publish(client, topic, [b"new"])
    assert receive_data(consumer, 1) == [b"new"]


def test_seek_by_time_starts_at_the_first_message_not_older(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    payloads = numbered(6)
    producer = client.create_producer(topic)
    times = []
    for payload in payloads:
        producer.send(payload)
        (message,) = receive(consumer, 1, acknowledge=True)
        times.append(message.publish_timestamp())
        wait_until(lambda: time.time_ns() // 1_000_000 > times[-1], interval_s=0.001)
    consumer.seek(times[3])
    assert receive_data(consumer, 3) == payloads[3:]
    consumer.seek(times[5] + 60_000)
    assert nothing_comes(consumer)
    consumer.seek(1)
    assert receive_data(consumer, 6) == payloads


def test_seek_by_time_skips_nothing_where_publish_times_are_not_sorted(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    now_ms = time.time_ns() // 1_000_000
    consumer = client.subscribe(topic, "s")
    with RawConnection.connected(broker.service_url) as raw:
        raw.request("PRODUCER", "PRODUCER_SUCCESS", topic=topic, producer_id=1)
        for number, age_s in enumerate((90, 50, 900, 40, 900, 900)):
            dated = entry(str(number).encode(), number, publish_time=now_ms - age_s * 1000)
            raw.send("SEND", dated, producer_id=1, sequence_id=number, num_messages=1)
            raw.expect("SEND_RECEIPT")
    consumer.seek(now_ms - 60_000)
    assert receive_data(consumer, 5) == numbered(5, first=1)
    consumer.seek(now_ms - 45_000)
    assert receive_data(consumer, 3) == numbered(3, first=3)
    consumer.seek(now_ms)
    assert nothing_comes(consumer)


def test_seek_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish_in_batches(client, topic, numbered(10), per_batch=10)
    messages = receive(consumer, 10, acknowledge=True)
    consumer.seek(messages[5].message_id())
    assert receive_data(consumer, 4) == numbered(4, first=6)


def test_acknowledgements_before_a_seek_back_are_undone(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish(client, topic, numbered(10))
    messages = receive(consumer, 10)
    for message in messages[::2]:
        consumer.acknowledge(message)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 5)
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_data(consumer, 10, acknowledge=True) == numbered(10)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
