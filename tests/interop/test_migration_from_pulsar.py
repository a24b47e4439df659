"""A tenant moves from Apache Pulsar to Magnetar while stock clients publish and consume by the lookup service."""

from __future__ import annotations

import os
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from tests.interop.java_traffic import JavaTraffic
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.lookup import Instance
from tests.kit.messages import connect, nothing_comes, numbered, receive, receive_data, send_all
from tests.kit.migration import Migrator
from tests.kit.pulsar import MixedClusters
from tests.kit.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(4 * UP_TIMEOUT_S)]

NAMESPACE = "shop/orders"
EU, US, JP = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "us", "jp"))
RESTING = [f"persistent://{NAMESPACE}/resting-{number}" for number in range(17)]
"""Topics with a backlog and without connected clients."""

COUNT = int(os.environ.get("MAGNETAR_MIGRATION_MESSAGES", "200000")) // len(RESTING)
ACKNOWLEDGED_S = 0.5
"""Time in which a client sends its acknowledgements, which it collects for 0.1 s."""

DELAYED = 5
"""Messages in each of these topics that are due in an hour."""

EPOCH = 1
"""Epoch of the second exclusive producer of the first of these topics."""

HELD = "held/out of order"
"""A name that Apache Pulsar encodes in its internal stats."""


@pytest.fixture
def clusters(peer: None, tmp_path: Path) -> Iterator[MixedClusters]:
    """Apache Pulsar with the tenant, and a Magnetar that has nothing of it, with a pipeline."""
    with MixedClusters(tmp_path, magnetar=("ewr",), apache=("legacy",)) as running:
        running.make_local_namespace("legacy", NAMESPACE)
        running.make_local_namespace("ewr", "other/namespace")  # registers legacy
        running.rest("legacy").put(f"persistent/{NAMESPACE}/us/partitions", 2)
        running.rest("legacy").post(f"namespaces/{NAMESPACE}/deduplication", True)
        running.start_pipeline()
        running.wait_for_pipeline()
        yield running


@pytest.fixture
def service_url(clusters: MixedClusters) -> Iterator[str]:
    lookup = Instance(clusters.directory / "lookup", [clusters.members["ewr"].admin_url], "legacy").start()
    yield lookup.service_url
    lookup.kill()


@pytest.fixture
def migrator(clusters: MixedClusters) -> Migrator:
    return Migrator("shop", clusters.members["legacy"], clusters.members["ewr"], clusters.directory / "migration")


def test_clients_move_without_loss(clusters: MixedClusters, service_url: str, migrator: Migrator) -> None:
    client = connect(clusters.members["legacy"].service_url)
    left = {topic: acknowledge_out_of_order(client, topic) for topic in RESTING}
    exclude(client, RESTING[0])
    client.close()
    # An unload may cost the C++ client a connection, with acknowledgements on their way on it: see the guide.
    traffic = Traffic(service_url, (EU, US), shares_connections=False)
    java = JavaTraffic(service_url, [JP], clusters.directory)
    try:
        time.sleep(2)
        assert migrator.run("run")["step"] == "ready"
        assert migrator.run("verify")["verdict"] == "equal"
        moves = [migrator.run("switch")]
        traffic.go_on("ewr")
        java.go_on("ewr")
        assert_served_by(clusters, "ewr")
        assert stats_in_ewr(clusters, RESTING[0])["topicEpoch"] == EPOCH
        left[RESTING[0]] = work_in("ewr", clusters, RESTING[0], left[RESTING[0]])
        left[RESTING[1]] = seek_back(clusters, RESTING[1])
        moves.append(migrator.run("rollback"))
        traffic.go_on("legacy")
        java.go_on("legacy")
        assert_served_by(clusters, "legacy")
        left[RESTING[0]] = work_in("legacy", clusters, RESTING[0], left[RESTING[0]])
        assert migrator.run("run")["step"] == "ready"
        assert migrator.run("verify")["verdict"] == "equal"
        moves.append(migrator.run("switch"))
        traffic.go_on("ewr again")
        assert [(each["step"], each["released"]) for each in moves] == [
            ("switched", []),
            ("ready", []),
            ("switched", []),
        ]
        assert {each["topics"] for each in moves} == {3 + len(RESTING)}
        assert migrator.run("cleanup", "--force")["step"] == "done"
        assert clusters.rest("legacy").get(f"persistent/{NAMESPACE}") == []
        assert clusters.rest("ewr").get(f"namespaces/{NAMESPACE}/replication") == ["ewr"]
        traffic.go_on("ewr after the clean-up")
        java.go_on("ewr after the clean-up")
    finally:
        traffic.stop()
        of_java = java.stop()
    repeated = {name: traffic.repeated(name) for name in traffic.received}
    figures = {"messages": traffic.published, "repeated": repeated, "again": traffic.again, "java": of_java}
    print(figures | {"moves": moves})  # noqa: T201 - figures of a long test
    assert traffic.failures == of_java["failures"] == []
    assert traffic.out_of_order == of_java["outOfOrder"] == []
    for subscription, received in traffic.received.items():
        assert len(received) == traffic.published, f"{subscription} has lost messages"
        received_by_java = of_java["received"][subscription]
        assert received_by_java["messages"] == of_java["published"], (
            f"{subscription} of the Java client has lost messages"
        )
        held = sum(each["redelivered_unacknowledged"] or 0 for each in moves)
        assert traffic.repeated(subscription) + received_by_java["repeated"] <= held
    for topic, unacknowledged in left.items():
        assert_left(clusters, topic, unacknowledged)


def acknowledge_out_of_order(client: pulsar.Client, topic: str) -> list[bytes]:
    """Publish in Apache Pulsar, and acknowledge some messages; return the others, without those that are delayed."""
    consumer = client.subscribe(topic, HELD, consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=COUNT)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    send_all(producer, [(payload, {}) for payload in numbered(COUNT)])
    for number in range(DELAYED):
        producer.send(b"delayed %d" % number, deliver_after=timedelta(hours=1))
    producer.close()
    rng, left = random.Random(topic), []
    for message in receive(consumer, COUNT):
        if int(message.data()) < COUNT // 2 or rng.random() < 0.5:
            consumer.acknowledge(message)
        else:
            left.append(message.data())
    time.sleep(ACKNOWLEDGED_S)
    consumer.close()
    return sorted(left)


def exclude(client: pulsar.Client, topic: str) -> None:
    """Let several exclusive producers connect."""
    for _ in range(EPOCH + 1):
        client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive).close()


def work_in(name: str, clusters: MixedClusters, topic: str, left: list[bytes]) -> list[bytes]:
    """Publish messages in a cluster, and acknowledge every third one; return the others."""
    new = [b"%s %d" % (name.encode(), number) for number in range(30)]
    client = connect(clusters.members[name].service_url)
    producer = client.create_producer(topic, batching_enabled=False)
    send_all(producer, [(payload, {}) for payload in new])
    consumer = client.subscribe(topic, HELD, consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=COUNT)
    received = {message.data(): message for message in receive(consumer, len(left) + len(new))}
    assert sorted(received) == sorted([*left, *new])
    for payload in [*left[::3], *new[::3]]:
        consumer.acknowledge(received.pop(payload))
    time.sleep(ACKNOWLEDGED_S)
    client.close()
    return sorted(received)


def seek_back(clusters: MixedClusters, topic: str) -> list[bytes]:
    """Move the subscription to the first message in ewr; return all messages."""
    client = connect(clusters.members["ewr"].service_url)
    consumer = client.subscribe(topic, HELD, consumer_type=pulsar.ConsumerType.Shared)
    consumer.seek(pulsar.MessageId.earliest)
    client.close()
    return sorted(numbered(COUNT))


def assert_left(clusters: MixedClusters, topic: str, unacknowledged: list[bytes]) -> None:
    """Check that ewr delivers exactly these messages, and keeps those that are delayed."""
    consumer = clusters.client("ewr").subscribe(topic, HELD, consumer_type=pulsar.ConsumerType.Shared)
    assert sorted(receive_data(consumer, len(unacknowledged), acknowledge=True)) == unacknowledged
    assert nothing_comes(consumer)
    consumer.close()
    assert stats_in_ewr(clusters, topic)["subscriptions"][HELD]["msgBacklog"] == DELAYED


def stats_in_ewr(clusters: MixedClusters, topic: str) -> dict[str, Any]:
    return dict(clusters.rest("ewr").get(f"{topic.replace('://', '/')}/stats"))


def assert_served_by(clusters: MixedClusters, cluster: str) -> None:
    """Check that all clients are connected to one cluster."""
    for name in ("ewr", "legacy"):
        members = (1, 2) if name == cluster else (0, 0)
        stats = clusters.rest(name).get(f"persistent/{NAMESPACE}/eu/stats")
        names = [sub for sub in stats["subscriptions"] if not sub.startswith(("magnetar.", "pulsar.repl."))]
        of_clients = [stats["subscriptions"][sub] for sub in names]
        consumers = sum(len(each["consumers"]) for each in of_clients)
        publishers = [each for each in stats["publishers"] if not each["producerName"].startswith("pulsar.repl.")]
        assert (len(publishers), consumers) == members, name
