"""Connections, topic lookup, partitioned metadata, topics of a namespace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import connect, publish, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def test_one_client_serves_many_topics(client: pulsar.Client, topic: str) -> None:
    producers = [client.create_producer(f"{topic}-{number}") for number in range(20)]
    assert all(producer.is_connected() for producer in producers)
    ids = [producer.send(b"x") for producer in producers]
    assert all(message_id.entry_id() == 0 for message_id in ids)


def test_short_name_is_expanded_to_public_default(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic.rpartition("/")[2], [b"short"])
    assert receive_data(consumer, 1) == [b"short"]


def test_partitions_of_a_topic_that_is_not_partitioned(client: pulsar.Client, topic: str) -> None:
    assert client.get_topic_partitions(topic) == [topic]


def test_partitions_of_a_partitioned_topic(client: pulsar.Client, broker: Broker, topic: str) -> None:
    broker.rest.put(f"{topic.replace('://', '/')}/partitions", 3)
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{index}" for index in range(3)]


def test_namespace_that_does_not_exist_is_refused(broker: Broker) -> None:
    client = connect(broker.service_url, operation_timeout_seconds=3)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://public/nowhere/topic")
    with pytest.raises(pulsar.PulsarException):
        client.subscribe("persistent://nobody/nowhere/topic", "s")
    client.close()


def test_topics_of_a_namespace_by_pattern(client: pulsar.Client, topic: str) -> None:
    for suffix in ("red", "green", "blue"):
        publish(client, f"{topic}-{suffix}", [suffix.encode()])
    consumer = client.subscribe(
        re.compile(f"{topic}-(red|green)"), "s", initial_position=pulsar.InitialPosition.Earliest
    )
    assert sorted(receive_data(consumer, 2)) == [b"green", b"red"]


def test_many_clients_at_once(broker: Broker, topic: str) -> None:
    clients = [connect(broker.service_url) for _ in range(20)]
    producers = [client.create_producer(topic) for client in clients]
    assert len({producer.producer_name() for producer in producers}) == len(producers)
    wait_until(lambda: len(broker.rest.stats(topic)["publishers"]) == len(producers))
    for client in clients:
        client.close()
    wait_until(lambda: broker.rest.stats(topic)["publishers"] == [])
