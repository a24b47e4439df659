"""A tenant moves from one cluster to another, up to the switch, with a pipeline and under traffic."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from tests.kit.child import ChildProcess
from tests.kit.clusters import MAGNETAR, UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import connect, numbered, publish, receive_until_quiet
from tests.kit.processes import is_alive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAMESPACE = "shop/orders"
TOPIC, EMPTY, PARTITIONED = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "empty", "us"))
STORED = 1_000
BILLING, AUDIT = "billing", "audit"
KILLS = 5


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Two clusters with a pipeline; the tenant exists in ewr only."""
    with LocalClusters(tmp_path, ("ewr", "jfk")) as running:
        running.make_local_namespace("ewr", NAMESPACE)
        running.make_local_namespace("jfk", "other/namespace")  # registers ewr
        running.rest("ewr").put(f"persistent/{NAMESPACE}/us/partitions", 2)
        running.rest("ewr").put(f"persistent/{NAMESPACE}/empty")
        running.rest("ewr").post(f"namespaces/{NAMESPACE}/messageTTL", 86_400)
        running.start_pipeline()
        running.wait_for_pipeline()
        yield running


def migrate(clusters: LocalClusters, command: str, *options: str, expected: int = 0) -> Any:  # noqa: ANN401
    """Run a command of ``magnetar migrate``, and return its output."""
    done = subprocess.run(
        [*line(clusters, command), *options], capture_output=True, check=False, text=True, timeout=600
    )
    assert done.returncode == expected, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def line(clusters: LocalClusters, command: str) -> list[str]:
    sides = [f"--{side}={clusters.members[name].admin_url}" for side, name in (("from", "ewr"), ("to", "jfk"))]
    state = [] if command == "plan" else ["--state", str(clusters.directory / "state")]
    return [*MAGNETAR, "migrate", command, "shop", *(() if command == "status" else sides), *state, "--output", "json"]


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
    ewr = clusters.client("ewr")
    ewr.subscribe(TOPIC, BILLING, consumer_type=pulsar.ConsumerType.Shared).close()
    clusters.rest("ewr").put(f"persistent/{NAMESPACE}/eu/subscription/{BILLING}/properties", {"team": "data"})
    ewr.subscribe(EMPTY, AUDIT, replicate_subscription_state_enabled=True).close()
    publish(ewr, TOPIC, numbered(STORED))
    publish(ewr, PARTITIONED, numbered(10))
    left = acknowledge_some(ewr, random.Random(7))

    assert migrate(clusters, "plan")["verdict"] == "possible"
    stop, sent = threading.Event(), list[bytes]()
    traffic = threading.Thread(target=publish_until, args=(clusters, stop, sent))
    traffic.start()
    try:
        for records in range(1, KILLS + 1):
            kill_after(clusters, 2 * records)
        found = migrate(clusters, "run")
    finally:
        stop.set()
        traffic.join()
    assert (found["step"], found["topics"], found["topicsByState"]) == ("ready", 4, {"agreed": 4})
    assert migrate(clusters, "status")["step"] == "ready"
    assert len(sent) > 0

    report = migrate(clusters, "verify")
    assert report["verdict"] == "equal"
    assert sum(each["compared"] for each in report["topics"] if each["cluster"] == "jfk") >= STORED + len(sent)
    assert migrate(clusters, "status")["differences"] == 0
    assert_target_has_everything(clusters, left | set(sent))

    assert migrate(clusters, "abandon")["step"] == "abandoned"
    stats = clusters.rest("ewr").get(f"persistent/{NAMESPACE}/eu/stats")["subscriptions"]
    assert stats[BILLING]["isReplicated"] is False
    assert clusters.rest("ewr").get(f"namespaces/{NAMESPACE}/replication") == ["ewr"]


def kill_after(clusters: LocalClusters, records: int) -> None:
    """Run the migration, and kill it when its journal has some records, or when it is ready."""
    journal = clusters.directory / "state" / "journal"
    process = ChildProcess(line(clusters, "run"), clusters.directory, f"killed-after-{records}")
    wait_until(
        lambda: not is_alive(process.pid) or (journal.exists() and journal.read_bytes().count(b"\n") >= records),
        UP_TIMEOUT_S,
        what=f"{records} records",
        interval_s=0.005,
    )
    process.kill()


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
