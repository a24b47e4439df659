"""Subscription types, initial positions, and durability without consumers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.messages import (
    connect,
    nothing_comes,
    numbered,
    publish,
    receive,
    receive_data,
    receive_until_quiet,
)
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def test_new_subscription_starts_at_the_latest_message(client: pulsar.Client, topic: str) -> None:
    publish(client, topic, [b"before"])
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [b"after"])
    assert receive_data(consumer, 1) == [b"after"]


def test_new_subscription_from_the_earliest_message(client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(3))
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    assert receive_data(consumer, 3) == numbered(3)


def test_initial_position_matters_only_once(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(4))
    receive(consumer, 2, acknowledge=True)
    consumer.close()
    again = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    assert receive_data(again, 2) == [b"2", b"3"]


def test_subscription_keeps_messages_while_nobody_consumes(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    publish(client, topic, numbered(3))
    assert receive_data(client.subscribe(topic, "s"), 3) == numbered(3)


def test_subscriptions_are_independent(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, name) for name in ("a", "b")]
    publish(client, topic, numbered(10))
    assert [receive_data(consumer, 10, acknowledge=True) for consumer in consumers] == [numbered(10)] * 2


def test_exclusive_refuses_a_second_consumer(broker: Broker, client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s")
    other = connect(broker.service_url)
    with pytest.raises(pulsar.ConsumerBusy):
        other.subscribe(topic, "s")
    first.close()
    assert other.subscribe(topic, "s").is_connected()
    other.close()


@pytest.mark.parametrize("second", [ConsumerType.Failover, ConsumerType.Exclusive])
def test_type_is_fixed_while_consumers_are_connected(
    broker: Broker, client: pulsar.Client, topic: str, second: ConsumerType
) -> None:
    first = client.subscribe(topic, "s", ConsumerType.Shared)
    other = connect(broker.service_url)
    with pytest.raises(pulsar.ConsumerBusy):
        other.subscribe(topic, "s", second)
    first.close()
    assert other.subscribe(topic, "s", second).is_connected()
    other.close()


def test_shared_gives_each_message_to_one_consumer(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", ConsumerType.Shared, receiver_queue_size=10) for _ in range(3)]
    publish(client, topic, numbered(90))
    shares: list[list[bytes]] = [[], [], []]
    while sum(map(len, shares)) < 90:
        for share, consumer in zip(shares, consumers, strict=True):
            messages = receive_until_quiet(consumer, 50)
            share.extend(message.data() for message in messages)
            for message in messages:
                consumer.acknowledge(message)
    assert sorted(shares[0] + shares[1] + shares[2]) == sorted(numbered(90))
    assert all(share for share in shares)
    assert all(share == sorted(share, key=int) for share in shares)


def test_shared_consumer_that_leaves_gives_its_messages_to_the_others(client: pulsar.Client, topic: str) -> None:
    stays = client.subscribe(topic, "s", ConsumerType.Shared, receiver_queue_size=10)
    leaves = client.subscribe(topic, "s", ConsumerType.Shared, receiver_queue_size=10)
    publish(client, topic, numbered(20))
    held = receive_data(leaves, 5)
    kept = receive_data(stays, 10)
    leaves.close()
    given = receive_data(stays, 10)
    assert set(held) <= set(given)
    assert Counter(kept + given) == Counter(numbered(20))


def test_failover_has_one_active_consumer_and_a_successor(broker: Broker, client: pulsar.Client, topic: str) -> None:
    other = connect(broker.service_url)
    consumers = [
        client.subscribe(topic, "s", ConsumerType.Failover, consumer_name="a"),
        other.subscribe(topic, "s", ConsumerType.Failover, consumer_name="b"),
    ]
    publish(client, topic, numbered(10))
    batches = [receive_until_quiet(consumer, 2_000) for consumer in consumers]
    active = 0 if batches[0] else 1
    assert [message.data() for message in batches[active]] == numbered(10)
    assert batches[1 - active] == []
    for message in batches[active][:4]:
        consumers[active].acknowledge(message)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 6)
    consumers[active].close()
    assert receive_data(consumers[1 - active], 6) == numbered(6, first=4)
    other.close()


def test_failover_tells_each_consumer_who_is_active(broker: Broker, topic: str) -> None:
    failover = pb.CommandSubscribe.Failover
    with RawConnection.connected(broker.service_url) as first, RawConnection.connected(broker.service_url) as second:
        first.subscribe(topic, "s", subType=failover, consumer_name="a", priority_level=0)
        assert first.expect("ACTIVE_CONSUMER_CHANGE").is_active
        second.subscribe(topic, "s", subType=failover, consumer_name="b", priority_level=1)
        assert not second.expect("ACTIVE_CONSUMER_CHANGE").is_active
        first.socket.close()
        assert second.expect("ACTIVE_CONSUMER_CHANGE").is_active


def test_failover_partitions_are_spread_over_the_consumers(broker: Broker, client: pulsar.Client, topic: str) -> None:
    broker.rest.put(f"{topic.replace('://', '/')}/partitions", 4)
    other = connect(broker.service_url)
    consumers = [
        client.subscribe(topic, "s", ConsumerType.Failover, consumer_name="a"),
        other.subscribe(topic, "s", ConsumerType.Failover, consumer_name="b"),
    ]

    def active(index: int) -> str:
        return str(broker.rest.stats(f"{topic}-partition-{index}")["subscriptions"]["s"]["activeConsumerName"])

    wait_until(lambda: [active(index) for index in range(4)] == ["a", "b", "a", "b"])
    assert all(consumer.is_connected() for consumer in consumers)
    other.close()


@pytest.mark.parametrize("name", ["pulsar.repl.elsewhere", "pulsar.dedup"])
def test_reserved_subscription_names_are_refused(client: pulsar.Client, topic: str, name: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, name)


def test_unsubscribe_forgets_the_subscription(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(3))
    consumer.unsubscribe()
    assert broker.rest.stats(topic)["subscriptions"] == {}
    again = client.subscribe(topic, "s")
    assert nothing_comes(again)


def test_messages_in_batches_state_where_they_were_published(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=10, compression_type=pulsar.CompressionType.ZLib
    )
    for text in numbered(2):
        producer.send_async(text, None, properties={"n": text.decode()})
    producer.flush()
    consumer = client.subscribe(
        topic,
        "s",
        initial_position=InitialPosition.Earliest,
        properties={"magnetar.originalClusterPosition": "true"},
    )
    messages = receive(consumer, 2)
    place = messages[0].message_id()
    value = f"standalone:{place.ledger_id()}:{place.entry_id()}"
    assert [each.properties() for each in messages] == [
        {"n": text.decode(), "originalClusterPosition": value} for text in numbered(2)
    ]
    assert [each.message_id().batch_index() for each in messages] == [0, 1]


def test_unsubscribe_beside_others_is_refused(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", ConsumerType.Shared) for _ in range(2)]
    with pytest.raises(pulsar.PulsarException):
        consumers[0].unsubscribe()
    publish(client, topic, [b"x"])
    assert any(receive_until_quiet(consumer) for consumer in consumers)
