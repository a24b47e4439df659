"""A tenant moves from one cluster to another, up to the switch, with a pipeline and under traffic."""

from __future__ import annotations

import random
import threading
from itertools import count
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import connect, numbered, publish, receive_until_quiet
from tests.kit.migration import Migrator, before_a_move

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import LocalClusters

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAMESPACE = "shop/orders"
TOPIC, EMPTY, PARTITIONED = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "empty", "us"))
STORED = 1_000
BILLING, AUDIT = "billing", "audit"
KILLS = 5


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Two clusters with a pipeline; the tenant exists in ewr only."""
    with before_a_move(tmp_path, NAMESPACE, make_topics) as running:
        yield running


def make_topics(clusters: LocalClusters) -> None:
    rest = clusters.rest("ewr")
    rest.put(f"persistent/{NAMESPACE}/us/partitions", 2)
    rest.put(f"persistent/{NAMESPACE}/empty")
    rest.post(f"namespaces/{NAMESPACE}/messageTTL", 86_400)


def acknowledge_some(client: pulsar.Client, chance: random.Random) -> set[bytes]:
    """Acknowledge single messages of the topic at random; return the payloads of the others."""
    consumer = client.subscribe(TOPIC, BILLING, consumer_type=pulsar.ConsumerType.Shared)
    left = set()
    for _ in range(STORED):
        message = consumer.receive(20_000)
        if chance.random() < 0.6:
            consumer.acknowledge(message)
        else:
            left.add(message.data())
    consumer.close()
    return left


def test_a_tenant_is_brought_to_another_cluster_verified_and_released(clusters: LocalClusters) -> None:
    migrator = Migrator("shop", clusters.brokers["ewr"], clusters.brokers["jfk"], clusters.directory / "migration")
    ewr = clusters.client("ewr")
    ewr.subscribe(TOPIC, BILLING, consumer_type=pulsar.ConsumerType.Shared).close()
    clusters.rest("ewr").put(f"persistent/{NAMESPACE}/eu/subscription/{BILLING}/properties", {"team": "data"})
    ewr.subscribe(EMPTY, AUDIT, replicate_subscription_state_enabled=True).close()
    publish(ewr, TOPIC, numbered(STORED))
    publish(ewr, PARTITIONED, numbered(10))
    left = acknowledge_some(ewr, random.Random(7))

    assert migrator.run("plan")["verdict"] == "possible"
    stop, sent = threading.Event(), list[bytes]()
    traffic = threading.Thread(target=publish_until, args=(clusters, stop, sent))
    traffic.start()
    try:
        for _ in range(KILLS):
            migrator.kill_after("run", 2)
        found = migrator.run("run")
    finally:
        stop.set()
        traffic.join()
    assert (found["step"], found["topics"], found["topicsByState"]) == ("ready", 4, {"agreed": 4})
    assert migrator.run("status")["step"] == "ready"
    assert len(sent) > 0

    report = migrator.run("verify")
    assert report["verdict"] == "equal"
    assert sum(each["compared"] for each in report["topics"] if each["cluster"] == "jfk") >= STORED + len(sent)
    assert migrator.run("status")["differences"] == 0
    assert_target_has_everything(clusters, left | set(sent))

    assert migrator.run("abandon")["step"] == "abandoned"
    stats = clusters.rest("ewr").get(f"persistent/{NAMESPACE}/eu/stats")["subscriptions"]
    assert stats[BILLING]["isReplicated"] is False
    assert clusters.rest("ewr").get(f"namespaces/{NAMESPACE}/replication") == ["ewr"]


def publish_until(clusters: LocalClusters, stop: threading.Event, sent: list[bytes]) -> None:
    """Publish, some hundred messages per second, until ``stop`` is set."""
    client = connect(clusters.members["ewr"].service_url)
    producer = client.create_producer(TOPIC)
    for number in count():
        payload = b"live %d" % number
        producer.send(payload)
        sent.append(payload)
        if stop.wait(0.005):
            break
    client.close()


def assert_target_has_everything(clusters: LocalClusters, expected: set[bytes]) -> None:
    jfk = clusters.rest("jfk")
    assert jfk.get(f"namespaces/{NAMESPACE}/messageTTL") == 86_400
    assert jfk.get(f"persistent/{NAMESPACE}/us/partitions")["partitions"] == 2
    assert AUDIT in jfk.get(f"persistent/{NAMESPACE}/empty/stats")["subscriptions"]
    billing = jfk.get(f"persistent/{NAMESPACE}/eu/stats")["subscriptions"][BILLING]
    assert billing["subscriptionProperties"] == {"team": "data"}
    consumer = clusters.client("jfk").subscribe(TOPIC, BILLING, consumer_type=pulsar.ConsumerType.Shared)
    received = [message.data() for message in receive_until_quiet(consumer)]
    assert len(received) == len(set(received))
    assert set(received) == expected
    consumer.close()
