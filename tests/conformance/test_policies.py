"""Policies of namespaces and topics, as the official client meets them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish, receive_data
from tests.kit.raw import RawConnection, entry
from tests.kit.rest import topic_path
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFTEN = {"brokerDeleteInactiveTopicsFrequencySeconds": 1}

RATE = 50
"""Messages per second."""


def test_a_topic_takes_so_many_producers_and_consumers(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    for policy in ("maxProducersPerTopic", "maxConsumersPerSubscription", "maxSubscriptionsPerTopic"):
        broker.rest.post(f"namespaces/{namespace}/{policy}", 1)
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.PulsarException, match="ProducerBusy"):
        client.create_producer(topic)
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    with pytest.raises(pulsar.PulsarException, match="ConsumerBusy"):
        client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
        client.subscribe(topic, "other")
    broker.rest.post(f"{topic_path(topic)}/maxConsumers", 3)
    broker.rest.post(f"{topic_path(topic)}/maxConsumersPerSubscription", 2)
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer.send(b"m")
    consumer.close()


def test_a_consumer_gets_no_more_than_it_may_hold(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    broker.rest.post(f"namespaces/{namespace}/maxUnackedMessagesPerConsumer", 5)
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    publish(client, topic, numbered(20))
    received = [consumer.receive(5000) for _ in range(5)]
    with pytest.raises(pulsar.PulsarException, match="TimeOut"):
        consumer.receive(300)
    for message in received:
        consumer.acknowledge(message)
    assert receive_data(consumer, 5, acknowledge=True) == numbered(20)[5:10]
    broker.rest.delete(f"namespaces/{namespace}/maxUnackedMessagesPerConsumer")
    assert receive_data(consumer, 10) == numbered(20)[10:]


def test_a_producer_publishes_at_the_rate_and_loses_nothing(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    rate = {"publishThrottlingRateInMsg": RATE, "publishThrottlingRateInByte": -1}
    broker.rest.post(f"namespaces/{namespace}/publishRate", rate)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    began = time.monotonic()
    for each in numbered(4 * RATE):
        producer.send(each)
    took_s = time.monotonic() - began
    assert took_s > 2.5
    assert receive_data(consumer, 4 * RATE) == numbered(4 * RATE)
    assert broker.rest.stats(topic)["publishRateLimitedTimes"] > 0


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared])
def test_a_backlog_is_received_at_the_rate(
    broker: Broker, client: pulsar.Client, namespace: str, kind: pulsar.ConsumerType
) -> None:
    topic = f"persistent://{namespace}/t"
    rate = {"dispatchThrottlingRateInMsg": RATE, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
    client.subscribe(topic, "s", kind).close()
    publish(client, topic, numbered(4 * RATE))
    broker.rest.post(f"{topic_path(topic)}/subscriptionDispatchRate", rate)
    consumer = client.subscribe(topic, "s", kind)
    began = time.monotonic()
    assert receive_data(consumer, 4 * RATE) == numbered(4 * RATE)
    assert time.monotonic() - began > 2.5


@pytest.fixture
def impatient(broker: Broker) -> Iterator[pulsar.Client]:
    """A client that retries what the broker refuses for three seconds only."""
    client = connect(broker.service_url, operation_timeout_seconds=3)
    yield client
    client.close()


def test_policies_decide_what_clients_create_and_use(broker: Broker, impatient: pulsar.Client, namespace: str) -> None:
    client, rest, topic = impatient, broker.rest, f"persistent://{namespace}/t"
    rest.post(f"namespaces/{namespace}/autoTopicCreation", {"allowAutoTopicCreation": False})
    with pytest.raises(pulsar.PulsarException, match="TopicNotFound"):
        client.create_producer(topic)
    rest.put(topic_path(topic), {})
    client.create_producer(topic)
    rest.post(f"{topic_path(topic)}/autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    with pytest.raises(pulsar.PulsarException, match=r"SubscriptionNotFound|TimeOut"):
        client.subscribe(topic, "s")
    rest.delete(f"{topic_path(topic)}/autoSubscriptionCreation")
    rest.post(f"namespaces/{namespace}/subscriptionTypesEnabled", ["Shared"])
    with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
        client.subscribe(topic, "s", pulsar.ConsumerType.Failover)
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    rest.post(f"namespaces/{namespace}/maxTopicsPerNamespace", 1)
    rest.delete(f"namespaces/{namespace}/autoTopicCreation")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(f"persistent://{namespace}/another")


def test_a_topic_refuses_large_and_plain_messages(broker: Broker, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    with RawConnection.connected(broker.service_url) as raw:
        raw.create_producer(topic)
        broker.rest.post(f"{topic_path(topic)}/maxMessageSize", 1000)
        raw.publish(b"x" * 500, sequence_id=0)
        raw.send("SEND", entry(b"x" * 1500, 1), producer_id=1, sequence_id=1)
        assert raw.expect("SEND_ERROR").error == pb.NotAllowedError
        broker.rest.post(f"namespaces/{namespace}/encryptionRequired", body=True)
        raw.send("SEND", entry(b"plain", 2), producer_id=1, sequence_id=2)
        assert raw.expect("SEND_ERROR").error == pb.MetadataError
        assert raw.request("PRODUCER", "ERROR", topic=topic, producer_id=2).error == pb.MetadataError


def test_a_namespace_makes_new_topics_partitioned(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    creation = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
    broker.rest.post(f"namespaces/{namespace}/autoTopicCreation", creation)
    client.create_producer(topic)
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{number}" for number in range(3)]


@pytest.fixture
def watchful(tmp_path: Path) -> Iterator[Broker]:
    """A broker that looks for inactive topics every second."""
    with Broker(tmp_path, settings=OFTEN) as running:
        yield running


def test_an_inactive_topic_is_deleted_and_one_with_a_backlog_is_not(watchful: Broker) -> None:
    policy = {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 2,
        "deleteWhileInactive": True,
    }
    idle, needed = (f"persistent://public/default/{name}" for name in ("idle", "needed"))
    client = connect(watchful.service_url)
    for topic in (idle, needed):
        client.subscribe(topic, "s")
    publish(client, needed, [b"m"])
    watchful.rest.post("namespaces/public/default/inactiveTopicPolicies", policy)
    client.close()
    wait_until(lambda: watchful.rest.get("persistent/public/default") == [needed], what="the deletion")
    client = connect(watchful.service_url)
    assert receive_data(client.subscribe(needed, "s"), 1) == [b"m"]
    client.close()
