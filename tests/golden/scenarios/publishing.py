"""Lookup and publishing."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar.schema import StringSchema

from tests.golden.stage import scenario
from tests.kit.messages import numbered, publish, publish_in_batches, receive, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.golden.stage import Stage


@scenario()
def connect_and_lookup(stage: Stage) -> None:
    """A client requests partitions and brokers of topics, partitioned or not, new or old."""
    stage.operate("partitioned-topic", stage.topic("parted"), "2")
    client = stage.client()
    assert client.get_topic_partitions(stage.topic("new")) == [stage.topic("new")]
    assert len(client.get_topic_partitions(stage.topic("parted"))) == 2
    client.create_producer(stage.topic("new")).close()
    client.create_producer(stage.topic("parted")).close()
    stage.client().create_producer(stage.topic("new")).close()


@scenario()
def topics_of_namespace(stage: Stage) -> None:
    """A pattern finds topics by their names; partitions count as one topic."""
    stage.operate("partitioned-topic", stage.topic("parted"), "2")
    client = stage.client()
    for name in ("apples", "pears"):
        publish(client, stage.topic(name), [name.encode()])
    pattern = re.compile(f"persistent://{stage.namespace}/(apples|part).*")
    consumer = client.subscribe(pattern, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert receive_data(consumer, 1, acknowledge=True) == [b"apples"]
    consumer.close()


@scenario()
def produce_plain(stage: Stage) -> None:
    """Messages with all optional fields, published and consumed one by one."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    producer = client.create_producer(stage.topic(), properties={"made": "here"})
    producer.send(b"plain")
    producer.send(b"", properties={"is": "empty"})
    producer.send(b"keyed", partition_key="k", ordering_key="o", event_timestamp=1_700_000_000_000)
    producer.send(bytes(range(256)), replication_clusters=["__local__"])
    named = client.create_producer(stage.topic(), producer_name="named", initial_sequence_id=41)
    named.send(b"numbered by its producer")
    assert len(receive(consumer, 5, acknowledge=True)) == 5


@scenario()
def produce_batched(stage: Stage) -> None:
    """Batches, one with a single message, and batches by key."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    publish_in_batches(client, stage.topic(), numbered(7), per_batch=3)
    producer = client.create_producer(
        stage.topic(),
        batching_enabled=True,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=50,
    )
    for number, key in enumerate("abab"):
        producer.send_async(b"%d" % number, lambda *_: None, partition_key=key, properties={"number": str(number)})
    producer.flush()
    assert len(receive(consumer, 11, acknowledge=True)) == 11


@scenario()
def produce_compressed(stage: Stage) -> None:
    """Every compression, of messages and of batches."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    kinds = pulsar.CompressionType
    for kind in (kinds.LZ4, kinds.ZLib, kinds.ZSTD, kinds.SNAPPY):
        publish(client, stage.topic(), [b"squeeze " * 20], compression_type=kind)
        producer = client.create_producer(
            stage.topic(), compression_type=kind, batching_enabled=True, batching_max_publish_delay_ms=50
        )
        for payload in numbered(3):
            producer.send_async(payload * 20, lambda *_: None)
        producer.flush()
        producer.close()
    assert len(receive(consumer, 16, acknowledge=True)) == 16


@scenario(settings={"maxMessageSize": 2048})
def produce_chunked(stage: Stage) -> None:
    """A message above the largest entry is split into chunks; without chunking the client refuses it."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    large = b" ".join(numbered(1200))
    publish(client, stage.topic(), [b"before", large, b"after"], chunking_enabled=True)
    assert receive_data(consumer, 3, acknowledge=True) == [b"before", large, b"after"]
    with pytest.raises(pulsar.MessageTooBig):
        publish(client, stage.topic(), [large])


@scenario()
def produce_to_partitions(stage: Stage) -> None:
    """Messages go to the partitions in turn, and are delivered with the partition in their ids."""
    stage.operate("partitioned-topic", stage.topic(), "2")
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    publish(client, stage.topic(), numbered(4))
    assert {message.message_id().partition() for message in receive(consumer, 4, acknowledge=True)} == {0, 1}


@scenario()
def produce_exclusively(stage: Stage) -> None:
    """Every access mode: refused, waiting for the current producer, and fencing it."""
    modes = pulsar.ProducerAccessMode
    client = stage.client()
    first = client.create_producer(stage.topic(), producer_name="first", access_mode=modes.Exclusive)
    first.send(b"1")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(stage.topic(), producer_name="second", access_mode=modes.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(stage.topic(), producer_name="third")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(
            client.create_producer, stage.topic(), producer_name="fourth", access_mode=modes.WaitForExclusive
        )
        stage.wait_for("PRODUCER_SUCCESS", 2)
        first.close()
        fourth = waiting.result()
    fourth.send(b"2")
    fencing = client.create_producer(stage.topic(), producer_name="fifth", access_mode=modes.ExclusiveWithFencing)
    fencing.send(b"3")
    fencing.close()
    client.create_producer(stage.topic(), producer_name="sixth").send(b"4")


@scenario()
def produce_exclusively_after_unload(stage: Stage) -> None:
    """The next exclusive producer is notified also if the topic was reloaded in between."""
    client = stage.client()
    options: dict[str, Any] = {"access_mode": pulsar.ProducerAccessMode.Exclusive}
    client.create_producer(stage.topic(), producer_name="first", **options).close()
    kept = client.create_producer(stage.topic(), producer_name="second", **options)
    kept.send(b"1")
    stage.operate("unload", stage.topic())
    stage.wait_for("CLOSE_PRODUCER", 2)
    wait_until(kept.is_connected, what="back again")
    kept.send(b"2")
    kept.close()
    stage.operate("unload", stage.topic())
    client.create_producer(stage.topic(), producer_name="third", **options).send(b"3")


@scenario()
def produce_with_schema(stage: Stage) -> None:
    """Producers and consumers with schemas."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s", schema=StringSchema())
    producer = client.create_producer(stage.topic(), schema=StringSchema())
    producer.send("text")
    assert receive(consumer, 1, acknowledge=True)[0].value() == "text"


@scenario()
def refused_producers(stage: Stage) -> None:
    """Refused producers."""
    client = stage.client()
    client.create_producer(stage.topic(), producer_name="taken")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(stage.topic(), producer_name="taken")
    with pytest.raises(pulsar.ProducerBusy):
        stage.client().create_producer(stage.topic(), producer_name="taken")


@scenario()
def missing_namespace(stage: Stage) -> None:
    """Topics of a missing namespace, and of a missing tenant."""
    client = stage.client()
    for topic in ("persistent://public/nowhere/t", "persistent://nobody/nowhere/t"):
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(topic)
        with pytest.raises(pulsar.PulsarException):
            client.subscribe(topic, "s")


@scenario(settings={"allowAutoTopicCreation": "false", "allowAutoSubscriptionCreation": "false"})
def missing_topic(stage: Stage) -> None:
    """Missing topics and subscriptions that may not be created automatically."""
    stage.operate("partitioned-topic", stage.topic("parted"), "1")
    client = stage.client(operation_timeout_seconds=2)
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(stage.topic("nowhere"))
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(stage.topic("nowhere"), "s")
    publish(client, stage.topic("parted"), numbered(1))
    with pytest.raises(pulsar.Timeout):
        client.subscribe(stage.topic("parted"), "s")
    reader = client.create_reader(stage.topic("parted-partition-0"), pulsar.MessageId.earliest)
    assert reader.read_next().data() == b"0"
