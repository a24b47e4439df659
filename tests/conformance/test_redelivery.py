"""Redelivery: negative acknowledgements, ack time-out, disconnected consumers, dead letters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.kit.messages import (
    nothing_comes,
    numbered,
    publish,
    publish_in_batches,
    receive,
    receive_data,
    receive_until_quiet,
)
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def test_negative_acknowledgement_brings_the_message_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=200)
    publish(client, topic, numbered(3))
    first, second, third = receive(consumer, 3)
    consumer.acknowledge(first)
    consumer.negative_acknowledge(second)
    consumer.acknowledge(third)
    (again,) = receive(consumer, 1)
    assert (again.data(), again.redelivery_count()) == (b"1", 1)
    consumer.acknowledge(again)
    assert nothing_comes(consumer, 800)


def test_each_negative_acknowledgement_counts(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=50)
    publish(client, topic, [b"x"])
    for count in range(4):
        (message,) = receive(consumer, 1)
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
def test_redelivery_of_all_that_is_unacknowledged(
    broker: Broker, client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", kind)
    publish(client, topic, numbered(6))
    messages = receive(consumer, 6)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[3])
    wait_until(lambda: broker.rest.backlog(topic, "s") == 4)
    consumer.redeliver_unacknowledged_messages()
    assert receive_data(consumer, 4) == [b"1", b"2", b"4", b"5"]


def test_ack_timeout(client: pulsar.Client, topic: str) -> None:
    shortest_ms = 10_000
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, unacked_messages_timeout_ms=shortest_ms)
    publish(client, topic, numbered(2))
    first, _ = receive(consumer, 2)
    consumer.acknowledge(first)
    received_at = time.monotonic()
    (again,) = receive(consumer, 1)
    assert again.data() == b"1"
    assert time.monotonic() - received_at > shortest_ms / 1000 / 2


def test_unacknowledged_messages_come_again_after_close_in_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(20))
    receive(consumer, 20)
    consumer.close()
    again = receive(client.subscribe(topic, "s"), 20)
    assert [message.data() for message in again] == numbered(20)


def test_new_messages_follow_the_redelivered_ones(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish(client, topic, numbered(5))
    receive(consumer, 5)
    consumer.close()
    publish(client, topic, numbered(5, first=5))
    assert receive_data(client.subscribe(topic, "s", ConsumerType.Shared), 10) == numbered(10)


def test_part_of_a_batch_comes_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", ConsumerType.Shared, batch_index_ack_enabled=True, negative_ack_redelivery_delay_ms=200
    )
    publish_in_batches(client, topic, numbered(6), per_batch=6)
    messages = receive(consumer, 6)
    for message in messages[:4]:
        consumer.acknowledge(message)
    # One call for the whole batch: the client asks for the entry. A second call that comes more than 200 ms later,
    # because the machine is busy, would ask for it again.
    consumer.negative_acknowledge(messages[4])
    again = receive_until_quiet(consumer, 3_000)
    assert [(message.data(), message.redelivery_count()) for message in again] == [(b"4", 1), (b"5", 1)]


def test_message_that_fails_too_often_goes_to_the_dead_letters(client: pulsar.Client, topic: str) -> None:
    dead = client.subscribe(f"{topic}-dead", "s", initial_position=InitialPosition.Earliest)
    consumer = client.subscribe(
        topic,
        "s",
        ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead"),
    )
    publish(client, topic, [b"poison"])
    for _ in range(3):
        consumer.negative_acknowledge(receive(consumer, 1)[0])
    assert receive_data(dead, 1) == [b"poison"]
