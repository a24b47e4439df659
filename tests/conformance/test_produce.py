"""Publishing: consumers receive the producer's messages with any batching and compression."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import (
    connect,
    entry_of,
    numbered,
    publish,
    publish_in_batches,
    read_log,
    receive,
    receive_data,
    send_all,
)
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker

CODECS = [
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


def test_messages_come_in_the_order_of_publishing(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(200))
    assert receive_data(consumer, 200) == numbered(200)


def test_receipts_name_growing_entries(client: pulsar.Client, topic: str) -> None:
    ids = [entry_of(message_id) for message_id in publish(client, topic, numbered(50))]
    assert ids == sorted(set(ids))


def test_pipelined_sends_keep_their_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, block_if_queue_full=True)
    send_all(producer, [(payload, {}) for payload in numbered(5_000)])
    assert receive_data(consumer, 5_000) == numbered(5_000)


def test_batch_is_one_entry(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish_in_batches(client, topic, numbered(30), per_batch=10)
    messages = receive(consumer, 30)
    assert [message.data() for message in messages] == numbered(30)
    assert len({entry_of(message.message_id()) for message in messages}) == 3
    assert [message.message_id().batch_index() for message in messages] == list(range(10)) * 3


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
def test_compression(client: pulsar.Client, topic: str, codec: pulsar.CompressionType, batched: bool) -> None:
    consumer = client.subscribe(topic, "s")
    payloads = [payload * 500 for payload in numbered(20)]
    publish(client, topic, payloads, compression_type=codec, batching_enabled=batched)
    assert receive_data(consumer, 20) == payloads


def test_keys_properties_and_event_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="tower")
    producer.send(
        b"x", properties={"gate": "B7", "größe": "ü"}, partition_key="N123", ordering_key="o", event_timestamp=1_234_567
    )
    (message,) = receive(consumer, 1)
    assert message.properties() == {"gate": "B7", "größe": "ü"}
    assert message.partition_key() == "N123"
    assert message.ordering_key() == "o"
    assert message.event_timestamp() == 1_234_567
    assert message.producer_name() == "tower"
    assert message.topic_name() == topic


def test_keys_and_properties_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1_000)
    for number in range(5):
        producer.send_async(
            b"x", lambda *_: None, properties={"n": str(number)}, partition_key=f"k{number}", event_timestamp=number + 1
        )
    producer.flush()
    messages = receive(consumer, 5)
    assert [message.properties() for message in messages] == [{"n": str(number)} for number in range(5)]
    assert [message.partition_key() for message in messages] == [f"k{number}" for number in range(5)]
    assert [message.event_timestamp() for message in messages] == [1, 2, 3, 4, 5]


def test_empty_payload(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [b""])
    assert receive_data(consumer, 1) == [b""]


def test_large_message(client: pulsar.Client, topic: str) -> None:
    payload = os.urandom(5 * 1024 * 1024 - 20 * 1024)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [payload])
    assert receive_data(consumer, 1) == [payload]


def test_message_above_the_limit_is_refused_by_name(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(6 * 1024 * 1024))
    producer.send(b"the producer goes on")


def test_chunked_message_comes_back_whole(client: pulsar.Client, topic: str) -> None:
    payload = os.urandom(12 * 1024 * 1024)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [payload, b"after"], chunking_enabled=True)
    assert receive_data(consumer, 2, acknowledge=True) == [payload, b"after"]


def test_producer_name_is_generated_and_unique(client: pulsar.Client, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(5)}
    assert len(names) == 5
    assert "" not in names


def test_producer_name_in_use_is_refused(broker: Broker, client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, producer_name="p")
    other = connect(broker.service_url)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(topic, producer_name="p")
    first.close()
    assert other.create_producer(topic, producer_name="p").producer_name() == "p"
    other.close()


def test_sequence_ids_are_the_producers(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, initial_sequence_id=41)
    producer.send(b"x")
    assert producer.last_sequence_id() == 42
    producer.send(b"x", sequence_id=100)
    assert producer.last_sequence_id() == 100


def test_two_producers_interleave_each_in_its_order(client: pulsar.Client, topic: str) -> None:
    def work(name: str) -> None:
        publish(client, topic, [f"{name}{number}".encode() for number in range(100)], producer_name=name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = [message.data().decode() for message in read_log(client, topic)]
    assert len(log) == 200
    for name in "ab":
        assert [text for text in log if text.startswith(name)] == [f"{name}{number}" for number in range(100)]


def test_exclusive_access_keeps_others_out(broker: Broker, client: pulsar.Client, topic: str) -> None:
    holder = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    other = connect(broker.service_url)
    with pytest.raises(pulsar.ProducerFenced):
        other.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(topic)
    holder.send(b"still the holder")
    other.close()


def test_exclusive_access_is_refused_beside_a_shared_producer(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    shared = client.create_producer(topic)
    other = connect(broker.service_url)
    with pytest.raises(pulsar.ProducerFenced):
        other.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    shared.send(b"undisturbed")
    other.close()


def test_waiting_for_exclusive_access(broker: Broker, client: pulsar.Client, topic: str) -> None:
    holder = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    other = connect(broker.service_url)
    waited: list[pulsar.Producer] = []

    def wait_for_access() -> None:
        waited.append(other.create_producer(topic, access_mode=pulsar.ProducerAccessMode.WaitForExclusive))

    waiter = threading.Thread(target=wait_for_access)
    waiter.start()
    wait_until(lambda: broker.rest.stats(topic)["waitingPublishers"] == 1)
    assert waited == []
    holder.close()
    waiter.join(20)
    waited[0].send(b"mine now")
    other.close()


def test_fencing_takes_access_from_the_holder(broker: Broker, client: pulsar.Client, topic: str) -> None:
    holder = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    holder.send(b"first")
    other = connect(broker.service_url)
    taker = other.create_producer(topic, access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing)
    taker.send(b"second")
    with pytest.raises(pulsar.PulsarException):
        holder.send(b"too late")
    assert [message.data() for message in read_log(other, topic)] == [b"first", b"second"]
    other.close()
