"""Key_Shared with the official client: order by key with changing consumers, key-based batches, sticky ranges."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import BatchingType, ConsumerKeySharedPolicy, ConsumerType, KeySharedMode

from tests.kit.messages import receive, receive_until_quiet
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker

KEYS = [f"key-{number}" for number in range(20)]


@pytest.mark.parametrize("batching", [None, BatchingType.KeyBased])
def test_a_key_is_in_order_while_consumers_come_and_go(
    broker: Broker, client: pulsar.Client, topic: str, batching: BatchingType | None
) -> None:
    order: dict[str, list[int]] = defaultdict(list)
    finished: list[int] = []
    guard = threading.Lock()

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        with guard:
            number = int(message.data())
            # Redelivered messages of a closed consumer may repeat, in the same order.
            if number not in order[message.partition_key()]:
                order[message.partition_key()].append(number)
        consumer.acknowledge(message)
        finished.append(number)

    def join(name: str) -> pulsar.Consumer:
        kind = ConsumerType.KeyShared
        return client.subscribe(topic, "s", kind, consumer_name=name, message_listener=received, receiver_queue_size=50)

    consumers = [join("a"), join("b")]
    batches = {"batching_enabled": True, "batching_type": batching} if batching else {"batching_enabled": False}
    producer = client.create_producer(topic, block_if_queue_full=True, **batches)
    for number in range(2000):
        producer.send_async(b"%d" % number, None, partition_key=KEYS[number % len(KEYS)])
        if number in (400, 800):
            consumers.append(join(f"c{number}"))
        if number in (600, 1200):
            consumers.pop(0).close()
    producer.flush()
    wait_until(lambda: broker.rest.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)
    assert sum(map(len, order.values())) == 2000
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert len(set(finished)) == 2000
    stats = broker.rest.stats(topic)["subscriptions"]["s"]
    assert (stats["type"], stats["keySharedMode"]) == ("Key_Shared", "AUTO_SPLIT")
    assert all(consumer["keyHashRangeArrays"] for consumer in stats["consumers"])


def test_sticky_ranges_get_what_they_ask_for(client: pulsar.Client, topic: str) -> None:
    def join(*ranges: tuple[int, int]) -> pulsar.Consumer:
        policy = ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=list(ranges))
        return client.subscribe(topic, "s", ConsumerType.KeyShared, key_shared_policy=policy)

    low = join((0, 20_000))
    with pytest.raises(pulsar.ConsumerAssignError):
        join((20_000, 30_000))
    producer = client.create_producer(topic)
    for key in KEYS:
        producer.send(key.encode(), ordering_key=key)
    first = {message.data().decode() for message in receive_until_quiet(low)}
    rest = {message.data().decode() for message in receive(join((20_001, 65_535)), len(KEYS) - len(first))}
    assert first | rest == set(KEYS)
    assert 0 < len(first) < len(KEYS)
