"""Backlog quotas and TTL with the official client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.messages import numbered, publish, receive_data
from tests.kit.raw import RawConnection, entry
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

OFTEN = {"backlogQuotaCheckIntervalInSeconds": 0.2, "messageExpiryCheckIntervalInMinutes": 0.005}
SIZE = "backlogQuota?backlogQuotaType=destination_storage"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that checks backlogs several times a second."""
    with Broker(tmp_path_factory.mktemp("backlog"), settings=OFTEN) as running:
        yield running


def test_a_held_producer_goes_on_by_itself_when_the_backlog_is_gone(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, send_timeout_millis=0)
    producer.send(b"x" * 5000)
    broker.rest.post(f"namespaces/{namespace}/{SIZE}", {"limitSize": 4000, "policy": "producer_request_hold"})
    wait_until(lambda: broker.rest.stats(topic)["publishers"] == [], what="the producer to be held off")
    receipts: list[pulsar.Result] = []
    producer.send_async(b"held", lambda result, _: receipts.append(result))
    with pytest.raises(pulsar.PulsarException, match="ProducerBlockedQuotaExceeded"):
        client.create_producer(topic)
    assert receipts == []
    assert receive_data(consumer, 1, acknowledge=True) == [b"x" * 5000]
    wait_until(lambda: receipts, what="the receipt of what was held")
    assert receipts == [pulsar.Result.Ok]
    assert receive_data(consumer, 1) == [b"held"]


def test_a_producer_is_told_when_the_policy_says_so(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "s")
    publish(client, topic, [b"x" * 5000])
    broker.rest.post(f"namespaces/{namespace}/{SIZE}", {"limitSize": 4000, "policy": "producer_exception"})
    with pytest.raises(pulsar.PulsarException, match="ProducerBlockedQuotaExceeded"):
        client.create_producer(topic)


def test_the_oldest_backlog_is_evicted(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=1)
    publish(client, topic, [b"x" * 1000] * 20)
    broker.rest.post(f"namespaces/{namespace}/{SIZE}", {"limitSize": 10_000, "policy": "consumer_backlog_eviction"})
    wait_until(lambda: broker.rest.backlog(topic, "s") < 10)
    left = broker.rest.backlog(topic, "s")
    assert left >= 7
    assert broker.rest.stats(topic)["subscriptions"]["s"]["totalMsgExpired"] == 20 - left
    consumer.close()


def test_messages_live_as_long_as_the_policy_says(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    client.subscribe(topic, "other")
    publish(client, topic, numbered(10))
    broker.rest.post(f"namespaces/{namespace}/messageTTL", 1)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
    wait_until(lambda: broker.rest.backlog(topic, "other") == 0)
    broker.rest.delete(f"namespaces/{namespace}/messageTTL")
    publish(client, topic, [b"lives"])
    assert broker.rest.backlog(topic, "other") == 1
    consumer.close()


def test_a_producer_with_a_slow_clock_expires_nothing(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    broker.rest.post(f"namespaces/{namespace}/messageTTL", 60)
    publish(client, topic, numbered(5))
    with RawConnection.connected(broker.service_url) as raw:
        raw.request("PRODUCER", "PRODUCER_SUCCESS", topic=topic, producer_id=1)
        raw.send("SEND", entry(b"slow", publish_time=1), producer_id=1, sequence_id=0, num_messages=1)
        raw.expect("SEND_RECEIPT")
    time.sleep(1.0)  # three rounds of expiry
    assert broker.rest.backlog(topic, "s") == 6
    assert broker.rest.stats(topic)["oldestBacklogMessageAgeSeconds"] in range(60)
    assert receive_data(consumer, 6) == [*numbered(5), b"slow"]


def test_a_policy_of_a_partitioned_topic_is_its_partitions(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    topic = f"persistent://{namespace}/t"
    path = topic.replace("://", "/")
    broker.rest.put(f"{path}/partitions", 2)
    client.subscribe(topic, "s")
    broker.rest.post(f"{path}/messageTTL?messageTTL=1")
    publish(client, topic, numbered(10))
    for index in range(2):
        assert broker.rest.get(f"{path}-partition-{index}/messageTTL?applied=true") == 1
        wait_until(lambda index=index: broker.rest.backlog(f"{topic}-partition-{index}", "s") == 0)  # type: ignore[misc]
