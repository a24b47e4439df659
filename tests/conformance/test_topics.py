"""Topics: partitioned or not, created explicitly or automatically."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish, receive, receive_data
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def partitioned(broker: Broker, topic: str) -> str:
    """A topic with four partitions."""
    broker.rest.put(f"{topic_path(topic)}/partitions", 4)
    return topic


def test_partitioned_topic_delivers_everything_once(client: pulsar.Client, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    publish(client, partitioned, numbered(100))
    assert sorted(receive_data(consumer, 100, acknowledge=True)) == sorted(numbered(100))


def test_unkeyed_messages_go_round_the_partitions(client: pulsar.Client, partitioned: str) -> None:
    ids = publish(client, partitioned, numbered(20))
    assert sorted({message_id.partition() for message_id in ids}) == [0, 1, 2, 3]


def test_key_stays_in_its_partition_and_in_order(client: pulsar.Client, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    producer = client.create_producer(partitioned)
    for number in range(80):
        producer.send(b"%d" % number, partition_key=f"key-{number % 8}")
    partitions = defaultdict(set)
    numbers = defaultdict(list)
    for message in receive(consumer, 80):
        partitions[message.partition_key()].add(message.message_id().partition())
        numbers[message.partition_key()].append(int(message.data()))
    assert all(len(found) == 1 for found in partitions.values())
    assert all(found == sorted(found) for found in numbers.values())


def test_partition_is_a_topic_of_its_own(client: pulsar.Client, partitioned: str) -> None:
    publish(client, f"{partitioned}-partition-2", numbered(3))
    consumer = client.subscribe(partitioned, "s", initial_position=InitialPosition.Earliest)
    messages = receive(consumer, 3)
    assert {message.topic_name() for message in messages} == {f"{partitioned}-partition-2"}


def test_shared_subscription_of_a_partitioned_topic(client: pulsar.Client, partitioned: str) -> None:
    consumers = [client.subscribe(partitioned, "s", ConsumerType.Shared) for _ in range(2)]
    publish(client, partitioned, numbered(40))
    received: list[bytes] = []
    while len(received) < 40:
        for consumer in consumers:
            try:
                received.append(consumer.receive(200).data())
            except pulsar.Timeout:
                continue
    assert sorted(received) == sorted(numbered(40))


def test_more_partitions_later(broker: Broker, partitioned: str) -> None:
    broker.rest.post(f"{topic_path(partitioned)}/partitions", 6)
    client = connect(broker.service_url)
    assert len(client.get_topic_partitions(partitioned)) == 6
    ids = publish(client, partitioned, numbered(12))
    assert {message_id.partition() for message_id in ids} == set(range(6))
    client.close()


def test_topic_is_made_by_its_first_producer(broker: Broker, client: pulsar.Client, topic: str) -> None:
    assert topic not in broker.rest.get("persistent/public/default")
    client.create_producer(topic)
    assert topic in broker.rest.get("persistent/public/default")


def test_topic_is_made_by_its_first_consumer(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s")
    assert topic in broker.rest.get("persistent/public/default")


def test_several_topics_in_one_subscription(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{number}" for number in range(3)]
    consumer = client.subscribe(topics, "s")
    for name in topics:
        publish(client, name, numbered(5))
    received = receive(consumer, 15, acknowledge=True)
    assert {message.topic_name() for message in received} == set(topics)


def test_pattern_includes_partitioned_topics(client: pulsar.Client, partitioned: str) -> None:
    publish(client, partitioned, numbered(8))
    consumer = client.subscribe(re.compile(f"{partitioned}.*"), "s", initial_position=InitialPosition.Earliest)
    assert sorted(receive_data(consumer, 8)) == sorted(numbered(8))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker without automatic topic creation."""
    with Broker(tmp_path_factory.mktemp("strict"), settings={"allowAutoTopicCreation": "false"}) as broker:
        yield broker


def test_without_auto_creation_an_absent_topic_is_refused(strict: Broker, topic: str) -> None:
    client = connect(strict.service_url, operation_timeout_seconds=5)
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(topic)
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(topic, "s")
    assert topic not in strict.rest.get("persistent/public/default")
    client.close()


def test_without_auto_creation_a_topic_made_by_hand_is_used(strict: Broker, topic: str) -> None:
    strict.rest.put(topic_path(topic), {})
    client = connect(strict.service_url)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [b"x"])
    assert receive_data(consumer, 1) == [b"x"]
    client.close()


def test_auto_created_topics_may_be_partitioned(tmp_path: Path, topic: str) -> None:
    settings = {"allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": 3}
    with Broker(tmp_path, settings=settings) as broker:
        client = connect(broker.service_url)
        ids = publish(client, topic, numbered(6))
        assert {message_id.partition() for message_id in ids} == {0, 1, 2}
        assert broker.rest.get("persistent/public/default/partitioned") == [topic]
        client.close()
