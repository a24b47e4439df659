"""One topic of a namespace is moved to another cluster while stock clients use it, and the other topic stays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import connect
from tests.kit.migration import Migrator, before_a_move, lookup_service
from tests.kit.traffic import Traffic
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import LocalClusters

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAMESPACE = "shop/orders"
EU, US, LOADS = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "us", "loads"))
"""The first one and the last one move. The first one has two partitions; the messages of the last one are trimmed."""

LOADED, LOADER = 10, "loader"
EPOCH = 1
"""Epoch of the second exclusive producer."""


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Two clusters with a pipeline; the tenant exists in ewr only, and clients use it there."""
    with before_a_move(tmp_path, NAMESPACE, make_topics) as running:
        yield running


def make_topics(clusters: LocalClusters) -> None:
    rest = clusters.rest("ewr")
    rest.put(f"persistent/{NAMESPACE}/eu/partitions", 2)
    rest.put(f"persistent/{NAMESPACE}/us")
    rest.post(f"namespaces/{NAMESPACE}/deduplication", True)
    load_and_trim(clusters)


@pytest.fixture
def service_url(clusters: LocalClusters) -> Iterator[str]:
    with lookup_service(clusters) as url:
        yield url


def test_a_topic_moves_alone(clusters: LocalClusters, service_url: str) -> None:
    migrator = Migrator("shop", clusters.brokers["ewr"], clusters.brokers["jfk"], clusters.directory / "migration")
    traffic = Traffic(service_url, (EU, US))
    try:
        time.sleep(2)
        assert migrator.run("run", "--topic", EU, "--topic", LOADS)["step"] == "ready"
        assert topics(clusters, "jfk") == {f"{EU}-partition-0", f"{EU}-partition-1", LOADS}
        assert migrator.run("verify")["verdict"] == "equal"
        moves = [migrator.run("switch")]
        assert last_sequence_id(service_url) == LOADED - 1
        assert clusters.rest("jfk").get(f"{LOADS.replace('://', '/')}/stats")["topicEpoch"] == EPOCH
        traffic.go_on("jfk")
        assert publishers(clusters, "jfk", "eu-partition-0") == 1
        assert (publishers(clusters, "ewr", "eu-partition-0"), publishers(clusters, "ewr", "us")) == (0, 1)
        moves.append(migrator.run("rollback"))
        traffic.go_on("ewr")
        assert publishers(clusters, "ewr", "eu-partition-0") == 1
        assert migrator.run("verify")["verdict"] == "equal"
        moves.append(migrator.run("switch"))
        assert migrator.run("cleanup", "--force")["step"] == "done"
        traffic.go_on("jfk after the clean-up")
    finally:
        traffic.stop()
    assert [each["topics"] for each in moves] == [2, 2, 2]
    assert traffic.failures == []
    assert traffic.out_of_order == []
    redelivered = sum(each["redelivered_unacknowledged"] or 0 for each in moves)
    for subscription, received in traffic.received.items():
        assert len(received) == traffic.published, f"{subscription} has lost messages"
        assert traffic.repeated(subscription) <= redelivered
    assert topics(clusters, "ewr") == {US}
    for name in clusters.members:
        assert clusters.rest(name).get(f"namespaces/{NAMESPACE}/replication") == [name]
        assert clusters.rest(name).get("tenants/shop")["allowedClusters"] == ["ewr", "jfk"]
    assert clusters.rest("jfk").get(f"persistent/{NAMESPACE}/eu/replication?applied=true") == ["jfk"]


def load_and_trim(clusters: LocalClusters) -> None:
    """Publish messages that no subscription keeps, and trim them. Exclusive producers were connected before."""
    for _ in range(EPOCH + 1):
        clusters.client("ewr").create_producer(LOADS, access_mode=pulsar.ProducerAccessMode.Exclusive).close()
    producer = clusters.client("ewr").create_producer(LOADS, producer_name=LOADER)
    for number in range(LOADED):
        producer.send(b"%d" % number, sequence_id=number)
    producer.close()
    rest, topic = clusters.rest("ewr"), LOADS.replace("://", "/")
    rest.put(f"{topic}/unload")
    rest.post(f"{topic}/trim")
    wait_until(lambda: rest.get(f"{topic}/internalStats")["numberOfEntries"] == 0, what="an empty log")


def last_sequence_id(service_url: str) -> int:
    """Return what the producer of the trimmed messages is told when it connects again."""
    client = connect(service_url)
    found = int(client.create_producer(LOADS, producer_name=LOADER).last_sequence_id())
    client.close()
    return found


def topics(clusters: LocalClusters, cluster: str) -> set[str]:
    """Return the topics and partitions of the namespace in a cluster."""
    return set(clusters.rest(cluster).get(f"persistent/{NAMESPACE}"))


def publishers(clusters: LocalClusters, cluster: str, topic: str) -> int:
    """Return the number of connected producers of clients."""
    return len(clusters.rest(cluster).get(f"persistent/{NAMESPACE}/{topic}/stats")["publishers"])
