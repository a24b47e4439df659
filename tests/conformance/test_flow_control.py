"""Flow control: a consumer gets messages within its permits, and other consumers get the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from tests.kit.messages import numbered, publish, publish_in_batches, receive, receive_data
from tests.kit.raw import RawConnection
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


@pytest.mark.parametrize("size", [1, 2, 7])
def test_small_receiver_queues_receive_everything_in_order(client: pulsar.Client, topic: str, size: int) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=size)
    publish(client, topic, numbered(40))
    assert receive_data(consumer, 40, acknowledge=True) == numbered(40)


def test_no_receiver_queue_at_all(client: pulsar.Client, topic: str) -> None:
    """The client requests one message at a time, and has no receive with a time-out."""
    consumer = client.subscribe(topic, "s", receiver_queue_size=0)
    publish(client, topic, numbered(10))
    for expected in numbered(10):
        message = consumer.receive()
        consumer.acknowledge(message)
        assert message.data() == expected


def test_small_receiver_queue_and_large_batches(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=3)
    publish_in_batches(client, topic, numbered(100), per_batch=25)
    assert receive_data(consumer, 100, acknowledge=True) == numbered(100)


def test_large_messages_through_a_small_queue(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=2)
    payloads = [bytes([number]) * 1_000_000 for number in range(12)]
    publish(client, topic, payloads)
    assert receive_data(consumer, 12) == payloads


def test_full_consumer_leaves_messages_to_the_other(broker: Broker, client: pulsar.Client, topic: str) -> None:
    full = client.subscribe(topic, "s", ConsumerType.Shared, receiver_queue_size=5)
    publish(client, topic, numbered(5))
    wait_until(lambda: broker.rest.stats(topic)["subscriptions"]["s"]["unackedMessages"] == 5)
    reading = client.subscribe(topic, "s", ConsumerType.Shared)
    publish(client, topic, numbered(20, first=5))
    assert receive_data(reading, 20, acknowledge=True) == numbered(20, first=5)
    assert receive_data(full, 5) == numbered(5)


def test_nothing_is_sent_before_permits_are_granted(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(10))
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        assert connection.is_answering()
        assert connection.received("MESSAGE") == []
        connection.flow(3)
        for entry_id in range(3):
            assert connection.expect("MESSAGE").message_id.entryId == entry_id
        assert holds_for(lambda: connection.is_answering() and not connection.received("MESSAGE"), 0.3)
        connection.flow(1)
        assert connection.expect("MESSAGE").message_id.entryId == 3


def test_permits_count_the_messages_of_a_batch(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish_in_batches(client, topic, numbered(40), per_batch=10)
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(15)
        assert [connection.expect("MESSAGE").message_id.entryId for _ in range(2)] == [0, 1]
        assert holds_for(lambda: connection.is_answering() and not connection.received("MESSAGE"), 0.3)
        connection.flow(10)
        assert connection.expect("MESSAGE").message_id.entryId == 2


def test_unacknowledged_messages_do_not_stop_a_consumer_with_room(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, receiver_queue_size=10)
    publish(client, topic, numbered(200))
    assert len(receive(consumer, 200)) == 200
