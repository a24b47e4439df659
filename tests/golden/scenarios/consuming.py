"""Subscribing, acknowledging, and redelivery."""

from __future__ import annotations

import queue
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from tests.golden.stage import scenario
from tests.kit.messages import (
    RECEIVE_TIMEOUT_MS,
    nothing_comes,
    numbered,
    publish,
    publish_in_batches,
    receive,
    receive_data,
)

if TYPE_CHECKING:
    from tests.golden.stage import Stage


@scenario()
def subscribe_exclusive(stage: Stage) -> None:
    """Earliest and latest, cumulative and individual acknowledgement, and redelivery after a reconnection."""
    client = stage.client()
    publish(client, stage.topic(), numbered(3))
    latest = client.subscribe(stage.topic(), "latest")
    earliest = client.subscribe(stage.topic(), "earliest", initial_position=pulsar.InitialPosition.Earliest)
    publish(client, stage.topic(), numbered(3, first=3))
    assert receive_data(latest, 3) == numbered(3, first=3)
    messages = receive(earliest, 6)
    earliest.acknowledge_cumulative(messages[1])
    earliest.acknowledge(messages[3])
    earliest.close()
    again = client.subscribe(stage.topic(), "earliest")
    assert receive_data(again, 3) == [b"2", b"4", b"5"]


@scenario()
def subscribe_shared(stage: Stage) -> None:
    """Two Shared consumers; unacknowledged messages of a closed one are delivered to the other."""
    client = stage.client()
    shared = pulsar.ConsumerType.Shared
    first = client.subscribe(stage.topic(), "s", consumer_type=shared, consumer_name="first", receiver_queue_size=3)
    publish(client, stage.topic(), numbered(3))
    stage.wait_for("MESSAGE", 3)
    second = client.subscribe(stage.topic(), "s", consumer_type=shared, consumer_name="second")
    publish(client, stage.topic(), numbered(2, first=3))
    assert receive_data(second, 2, acknowledge=True) == numbered(2, first=3)
    assert receive_data(first, 1, acknowledge=True) == [b"0"]
    first.close()
    assert receive_data(second, 2, acknowledge=True) == [b"1", b"2"]
    assert nothing_comes(second)


@scenario(settings={"activeConsumerFailoverDelayTimeMillis": 0})
def subscribe_failover(stage: Stage) -> None:
    """One of three consumers is active; when it is closed, the next one gets its unacknowledged messages."""
    client = stage.client()
    received: queue.SimpleQueue[tuple[str, pulsar.Message]] = queue.SimpleQueue()
    options: dict[str, Any] = {
        "consumer_type": pulsar.ConsumerType.Failover,
        "message_listener": lambda consumer, message: received.put((consumer.consumer_name(), message)),
    }
    consumers = {name: client.subscribe(stage.topic(), "s", consumer_name=name, **options) for name in "abc"}
    publish(client, stage.topic(), numbered(3))
    for left in (numbered(3), numbered(2, first=1), numbered(1, first=2)):
        messages = [received.get(timeout=RECEIVE_TIMEOUT_MS / 1000) for _ in left]
        assert [message.data() for _, message in messages] == left
        active, first = messages[0]
        consumers[active].acknowledge(first)
        consumers[active].close()


@scenario(settings={"activeConsumerFailoverDelayTimeMillis": 0})
def subscribe_failover_to_partitions(stage: Stage) -> None:
    """The active consumers of partitions are distributed over the consumers."""
    stage.operate("partitioned-topic", stage.topic(), "3")
    client = stage.client()
    failover: dict[str, Any] = {"consumer_type": pulsar.ConsumerType.Failover}
    consumers = [client.subscribe(stage.topic(), "s", consumer_name=name, **failover) for name in "ba"]
    publish(client, stage.topic(), numbered(6))
    for consumer, count in zip(consumers, (2, 4), strict=True):
        receive(consumer, count, acknowledge=True)


@scenario()
def subscribe_key_shared(stage: Stage) -> None:
    """Each key goes to its consumer; unacknowledged messages of a closed consumer go to the other."""
    client = stage.client()
    consumers = {
        name: client.subscribe(stage.topic(), "s", consumer_type=pulsar.ConsumerType.KeyShared, consumer_name=name)
        for name in ("one", "two")
    }
    producer = client.create_producer(stage.topic())
    for number in range(8):
        stage.wait_for("MESSAGE", number)
        producer.send(b"%d" % number, partition_key=f"key-{number % 6}")
    stage.wait_for("MESSAGE", 8)
    kept = receive(consumers["one"], 4)
    consumers["one"].acknowledge(kept[0])
    consumers["one"].close()
    assert receive_data(consumers["two"], 7, acknowledge=True) == [b"0", b"4", b"5", b"6", b"2", b"3", b"7"]
    producer.send(b"8", ordering_key="key-1")
    receive(consumers["two"], 1, acknowledge=True)
    assert nothing_comes(consumers["two"])


@scenario()
def subscribe_key_shared_sticky(stage: Stage) -> None:
    """Consumers with sticky hash ranges, and refused ones."""
    client = stage.client()

    def subscribe(name: str, *ranges: tuple[int, int], **options: bool) -> pulsar.Consumer:
        mode = pulsar.KeySharedMode.Sticky if ranges else pulsar.KeySharedMode.AutoSplit
        policy = pulsar.ConsumerKeySharedPolicy(mode, sticky_ranges=list(ranges) or None, **options)
        return client.subscribe(
            stage.topic(),
            "s",
            consumer_type=pulsar.ConsumerType.KeyShared,
            consumer_name=name,
            key_shared_policy=policy,
        )

    low = subscribe("low", (0, 32767))
    for ranges, refusal in (([(32000, 40000)], pulsar.ConsumerAssignError), ([], pulsar.ConsumerBusy)):
        with pytest.raises(refusal):
            subscribe("refused", *ranges)
    with pytest.raises(pulsar.ConsumerBusy):
        subscribe("refused", (32768, 65535), allow_out_of_order_delivery=True)
    high = subscribe("high", (32768, 50000), (50001, 65535))
    producer = client.create_producer(stage.topic())
    for number in range(6):
        stage.wait_for("MESSAGE", number)
        producer.send(b"%d" % number, partition_key=f"key-{number}")
    stage.wait_for("MESSAGE", 6)
    low.close()
    high.close()


@scenario(settings={"subscriptionKeySharedEnable": "false"})
def subscribe_key_shared_disabled(stage: Stage) -> None:
    """Key_Shared subscriptions are refused if they are disabled."""
    client = stage.client()
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(stage.topic(), "s", consumer_type=pulsar.ConsumerType.KeyShared)


@scenario()
def refused_consumers(stage: Stage) -> None:
    """Refused consumers."""
    client = stage.client()
    kinds = pulsar.ConsumerType
    owner = client.subscribe(stage.topic(), "s")
    for kind in (kinds.Exclusive, kinds.Shared):
        with pytest.raises(pulsar.ConsumerBusy):
            client.subscribe(stage.topic(), "s", consumer_type=kind)
    other = stage.client()
    with pytest.raises(pulsar.ConsumerBusy):
        other.subscribe(stage.topic(), "s")
    shared = client.subscribe(stage.topic(), "shared", consumer_type=kinds.Shared)
    other.subscribe(stage.topic(), "shared", consumer_type=kinds.Shared)
    with pytest.raises(pulsar.PulsarException):
        shared.unsubscribe()
    for reserved in ("pulsar.repl.elsewhere", "pulsar.dedup"):
        with pytest.raises(pulsar.PulsarException):
            client.subscribe(stage.topic(), reserved)
    owner.close()


@scenario()
def acknowledge_batch_index(stage: Stage) -> None:
    """Only the unacknowledged messages of a batch are redelivered."""
    client = stage.client()
    options: dict[str, Any] = {"consumer_type": pulsar.ConsumerType.Shared, "batch_index_ack_enabled": True}
    consumer = client.subscribe(stage.topic(), "s", **options)
    publish_in_batches(client, stage.topic(), numbered(10), per_batch=5)
    messages = receive(consumer, 10)
    for message in (*messages[:3], messages[4], messages[7]):
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(stage.topic(), "s", **options)
    assert receive_data(again, 5, acknowledge=True) == [b"3", b"5", b"6", b"8", b"9"]
    again.close()
    done = client.subscribe(stage.topic(), "s", **options)
    assert nothing_comes(done)


@scenario()
def acknowledge_cumulative_in_batch(stage: Stage) -> None:
    """A cumulative acknowledgement may end within a batch."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s", batch_index_ack_enabled=True)
    publish_in_batches(client, stage.topic(), numbered(10), per_batch=5)
    consumer.acknowledge_cumulative(receive(consumer, 10)[6])
    consumer.close()
    again = client.subscribe(stage.topic(), "s", batch_index_ack_enabled=True)
    assert receive_data(again, 3) == numbered(3, first=7)


@scenario()
def redeliver(stage: Stage) -> None:
    """Negative acknowledgements, and a consumer that requests redelivery of everything, Shared and Exclusive."""
    client = stage.client()
    options: dict[str, Any] = {"negative_ack_redelivery_delay_ms": 100}
    shared = client.subscribe(stage.topic(), "shared", consumer_type=pulsar.ConsumerType.Shared, **options)
    exclusive = client.subscribe(stage.topic(), "exclusive", **options)
    publish(client, stage.topic(), numbered(3))
    shared.negative_acknowledge(receive(shared, 3)[1])
    assert receive_data(shared, 1) == [b"1"]
    shared.redeliver_unacknowledged_messages()
    assert sorted(receive_data(shared, 3, acknowledge=True)) == numbered(3)
    exclusive.acknowledge(receive(exclusive, 3)[0])
    exclusive.redeliver_unacknowledged_messages()
    assert receive_data(exclusive, 2, acknowledge=True) == numbered(2, first=1)


@scenario()
def deliver_later(stage: Stage) -> None:
    """A message without a delay overtakes a delayed one."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(stage.topic())
    producer.send(b"later", deliver_after=timedelta(seconds=3))
    producer.send(b"now")
    assert receive_data(consumer, 2, acknowledge=True) == [b"now", b"later"]


@scenario()
def deliver_later_to_one(stage: Stage) -> None:
    """A subscription with one active consumer keeps the order, and delivers a delayed message at once."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s")
    producer = client.create_producer(stage.topic())
    producer.send(b"later", deliver_after=timedelta(hours=1))
    producer.send(b"now")
    assert receive_data(consumer, 2, acknowledge=True) == [b"later", b"now"]


@scenario()
def permits(stage: Stage) -> None:
    """No consumer gets more messages than it has permits; a batch counts with its messages."""
    client = stage.client()
    few = client.subscribe(stage.topic(), "few", receiver_queue_size=2)
    one = client.subscribe(stage.topic(), "one", receiver_queue_size=0)
    publish(client, stage.topic(), numbered(5))
    stage.wait_for("MESSAGE", 2)
    assert receive_data(few, 5, acknowledge=True) == numbered(5)
    for payload in numbered(2):
        message = one.receive()
        assert message.data() == payload
        one.acknowledge(message)


@scenario()
def permits_of_batches(stage: Stage) -> None:
    """A batch is delivered as a whole, also to a consumer with fewer permits than the batch has messages."""
    client = stage.client()
    consumer = client.subscribe(stage.topic(), "s", receiver_queue_size=3)
    publish_in_batches(client, stage.topic(), numbered(5), per_batch=5)
    stage.wait_for("MESSAGE", 1)
    publish_in_batches(client, stage.topic(), numbered(5, first=5), per_batch=5)
    assert receive_data(consumer, 10, acknowledge=True) == numbered(10)


@scenario()
def redeliver_in_batch(stage: Stage) -> None:
    """A negative acknowledgement within a batch redelivers its unacknowledged messages."""
    client = stage.client()
    consumer = client.subscribe(
        stage.topic(),
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        batch_index_ack_enabled=True,
        negative_ack_redelivery_delay_ms=500,
    )
    publish_in_batches(client, stage.topic(), numbered(4), per_batch=4)
    messages = receive(consumer, 4)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    stage.wait_for("ACK", 1)
    consumer.negative_acknowledge(messages[1])
    assert receive_data(consumer, 2, acknowledge=True) == [b"1", b"3"]


@scenario()
def dead_letters(stage: Stage) -> None:
    """Messages with too many redeliveries go to the dead letter topic, which has a subscription."""
    client = stage.client()
    policy = pulsar.ConsumerDeadLetterPolicy(1, stage.topic("dead"), "undertaker")
    consumer = client.subscribe(
        stage.topic(),
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=policy,
    )
    publish(client, stage.topic(), numbered(1))
    for _ in range(2):
        consumer.negative_acknowledge(receive(consumer, 1)[0])
    undertaker = client.subscribe(stage.topic("dead"), "undertaker", consumer_type=pulsar.ConsumerType.Shared)
    assert receive_data(undertaker, 1, acknowledge=True) == numbered(1)
