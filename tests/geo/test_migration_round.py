"""A tenant moves to a second cluster, on to a third one, and back to the first one, which was cleaned up."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import numbered, receive, receive_until_quiet, send_all
from tests.kit.migration import Migrator, before_a_move, lookup_service
from tests.kit.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import LocalClusters

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

NAMESPACE = "shop/orders"
EU, US, PACKED = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "us", "packed"))
"""Clients use the first two. The first one has two partitions. The third one has messages from before the moves."""

COUNT, SUBSCRIPTION = 200, "s"
WAY = ("ewr", "jfk", "lga", "ewr")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Three clusters with a pipeline; the tenant exists in ewr only."""
    with before_a_move(tmp_path, NAMESPACE, make_topics, ("ewr", "jfk", "lga")) as running:
        yield running


def make_topics(clusters: LocalClusters) -> None:
    clusters.rest("ewr").put(f"persistent/{NAMESPACE}/eu/partitions", 2)
    publish_and_acknowledge(clusters, "ewr", 0)


@pytest.fixture
def service_url(clusters: LocalClusters) -> Iterator[str]:
    with lookup_service(clusters) as url:
        yield url


def test_a_tenant_returns_over_two_other_clusters(clusters: LocalClusters, service_url: str) -> None:
    traffic = Traffic(service_url, (EU, US))
    held = 0
    try:
        time.sleep(2)
        for number, (source, target) in enumerate(pairwise(WAY), 1):
            migrator = migrator_of(clusters, source, target)
            assert migrator.run("run")["step"] == "ready"
            assert migrator.run("verify")["verdict"] == "equal"
            moved = migrator.run("switch")
            assert (moved["topics"], moved["released"]) == (3, [])
            held += moved["redelivered_unacknowledged"] or 0
            traffic.go_on(target)
            publish_and_acknowledge(clusters, target, number)
            assert migrator.run("cleanup", "--force")["step"] == "done"
            assert clusters.rest(source).get(f"persistent/{NAMESPACE}") == []
            traffic.go_on(f"{target} after the clean-up")
    finally:
        traffic.stop()
    assert traffic.failures == []
    assert traffic.out_of_order == []
    for subscription, received in traffic.received.items():
        assert len(received) == traffic.published, f"{subscription} has lost messages"
        assert traffic.repeated(subscription) <= held
    consumer = subscribe(clusters, "ewr")
    left = [payload for number in range(len(WAY)) for payload in messages(number)[1::2]]
    assert sorted(message.data() for message in receive_until_quiet(consumer)) == sorted(left)


def migrator_of(clusters: LocalClusters, source: str, target: str) -> Migrator:
    directory = clusters.directory / f"{source}-{target}"
    return Migrator("shop", clusters.members[source], clusters.members[target], directory)


def publish_and_acknowledge(clusters: LocalClusters, cluster: str, number: int) -> None:
    """Publish messages in a cluster, and acknowledge every second one of them."""
    consumer = subscribe(clusters, cluster)
    producer = clusters.client(cluster).create_producer(PACKED)
    new = messages(number)
    send_all(producer, [(payload, {}) for payload in new])
    for message in receive(consumer, COUNT * number // 2 + COUNT):
        if message.data() in new[::2]:
            consumer.acknowledge(message)
    time.sleep(0.5)  # the client collects acknowledgements for 0.1 s
    consumer.close()
    producer.close()


def messages(number: int) -> list[bytes]:
    return [b"%d %s" % (number, payload) for payload in numbered(COUNT)]


def subscribe(clusters: LocalClusters, cluster: str) -> pulsar.Consumer:
    client, kind = clusters.client(cluster), pulsar.ConsumerType.Shared
    return client.subscribe(PACKED, SUBSCRIPTION, consumer_type=kind, batch_index_ack_enabled=True)
