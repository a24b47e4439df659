"""Readers: any start position, and no subscription afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import RECEIVE_TIMEOUT_MS, numbered, publish, publish_in_batches, read_log
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def read(reader: pulsar.Reader, count: int) -> list[bytes]:
    """Read ``count`` payloads."""
    return [reader.read_next(RECEIVE_TIMEOUT_MS).data() for _ in range(count)]


def test_from_the_earliest_message(client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(10))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read(reader, 10) == numbered(10)
    assert not reader.has_message_available()


def test_from_the_latest_message(client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(3))
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    assert not reader.has_message_available()
    publish(client, topic, [b"new"])
    wait_until(reader.has_message_available)
    assert read(reader, 1) == [b"new"]


def test_latest_message_included(client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(3))
    reader = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert reader.has_message_available()
    assert read(reader, 1) == [b"2"]


@pytest.mark.parametrize(("inclusive", "expected"), [(False, [b"3", b"4"]), (True, [b"2", b"3", b"4"])])
def test_from_a_message_id(client: pulsar.Client, topic: str, inclusive: bool, expected: list[bytes]) -> None:
    ids = publish(client, topic, numbered(5))
    reader = client.create_reader(topic, ids[2], start_message_id_inclusive=inclusive)
    assert read(reader, len(expected)) == expected
    assert not reader.has_message_available()


def test_from_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    publish_in_batches(client, topic, numbered(10), per_batch=10)
    ids = [message.message_id() for message in read_log(client, topic)]
    assert read(client.create_reader(topic, ids[6]), 3) == [b"7", b"8", b"9"]
    assert read(client.create_reader(topic, ids[6], start_message_id_inclusive=True), 4) == numbered(4, first=6)


def test_empty_topic_has_nothing_available(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert not reader.has_message_available()
    publish(client, topic, [b"x"])
    wait_until(reader.has_message_available)


def test_reader_waits_for_what_is_published_later(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    with pytest.raises(pulsar.Timeout):
        reader.read_next(100)
    publish(client, topic, numbered(3))
    assert read(reader, 3) == numbered(3)


def test_readers_are_independent_of_subscriptions(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(5))
    for _ in range(5):
        consumer.acknowledge(consumer.receive(RECEIVE_TIMEOUT_MS))
    readers = [client.create_reader(topic, pulsar.MessageId.earliest) for _ in range(2)]
    assert [read(reader, 5) for reader in readers] == [numbered(5)] * 2


def test_reader_leaves_no_subscription_behind(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, [b"x"])
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    read(reader, 1)
    reader.close()
    wait_until(lambda: broker.rest.stats(topic)["subscriptions"] == {})


def test_reader_seeks(client: pulsar.Client, topic: str) -> None:
    ids = publish(client, topic, numbered(10))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    read(reader, 10)
    reader.seek(ids[3])
    assert read(reader, 6) == numbered(6, first=4)
    reader.seek(pulsar.MessageId.earliest)
    assert read(reader, 10) == numbered(10)


def test_last_message_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    empty = consumer.get_last_message_id()
    assert (empty.ledger_id(), empty.entry_id()) == (-1, -1)
    last = publish(client, topic, numbered(5))[-1]
    assert consumer.get_last_message_id() == last


def test_last_message_id_names_the_last_of_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish_in_batches(client, topic, numbered(8), per_batch=8)
    assert consumer.get_last_message_id().batch_index() == 7


def test_long_log_is_read_once_and_in_order(client: pulsar.Client, topic: str) -> None:
    publish_in_batches(client, topic, numbered(20_000), per_batch=50)
    assert [message.data() for message in read_log(client, topic)] == numbered(20_000)
