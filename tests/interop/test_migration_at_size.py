"""A tenant of 200 topics moves to another cluster, back, and over that cluster to a third one.

Stock Python and Java clients publish and consume by the lookup service meanwhile.
``MAGNETAR_MIGRATION_TENANT_MESSAGES`` sets the number of messages that are stored before, and
``MAGNETAR_MIGRATION_RATE`` the number that clients publish per second. The full size is 2000000 and 500.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from tests.interop.java_traffic import JavaTraffic
from tests.kit.messages import connect, numbered, receive, receive_until_quiet
from tests.kit.migration import Migrator, before_a_move, lookup_service
from tests.kit.traffic import KEYS, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import LocalClusters

TIMEOUT_S = 3600
pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * TIMEOUT_S)]

NAMESPACE = "shop/orders"
TOPICS = [f"persistent://{NAMESPACE}/{number}" for number in range(200)]
OF_JAVA = 50
"""Topics of the Java client."""

COUNT = int(os.environ.get("MAGNETAR_MIGRATION_TENANT_MESSAGES", "100000")) // len(TOPICS)
PER_BATCH = 100
"""Messages in each entry of every second topic; in the others, each entry is a message."""

DELAYED = 5
"""Messages in each topic that are due in ten hours."""

KINDS = {"packed": pulsar.ConsumerType.Shared, "shipped": pulsar.ConsumerType.KeyShared}
"""Subscriptions with messages that are acknowledged out of order, and without consumers during the moves."""

PER_SECOND = float(os.environ.get("MAGNETAR_MIGRATION_RATE", "100"))
"""Messages that clients publish per second, over all topics."""

ACKNOWLEDGED_S = 0.5
"""Time in which a client sends its acknowledgements, which it collects for 0.1 s."""

Left = dict[str, list[bytes]]
"""By subscription, the unacknowledged messages without those that are delayed, sorted."""


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Three clusters with a pipeline; the tenant exists in the first one only."""
    with before_a_move(tmp_path, NAMESPACE, lambda _: None, ("ewr", "jfk", "lga")) as running:
        yield running


@pytest.fixture
def service_url(clusters: LocalClusters) -> Iterator[str]:
    with lookup_service(clusters) as url:
        yield url


def test_clients_move_three_times_without_loss(clusters: LocalClusters, service_url: str) -> None:
    left = filled(clusters.members["ewr"].service_url)
    round_s = KEYS * len(TOPICS) / PER_SECOND
    traffic = Traffic(service_url, TOPICS[OF_JAVA:], round_s)
    java = JavaTraffic(service_url, TOPICS[:OF_JAVA], clusters.directory, round_s)
    moves: dict[str, Any] = {}
    took_s: dict[str, float] = {}

    def took(step: str, migrator: Migrator, command: str, *options: str) -> Any:  # noqa: ANN401 - any JSON
        began = time.monotonic()
        found = migrator.run(command, *options)
        took_s[f"{step}: {command}"] = round(time.monotonic() - began, 1)
        print(step, command, took_s[f"{step}: {command}"])  # noqa: T201 - progress of a long test
        if command in ("switch", "rollback"):
            moves[step] = found
            go_on(traffic, java, step)
        return found

    def bring(step: str, migrator: Migrator) -> None:
        assert took(step, migrator, "run")["step"] == "ready"
        assert took(step, migrator, "verify")["verdict"] == "equal"
        assert took(step, migrator, "switch")["step"] == "switched"

    try:
        first = migrator_of(clusters, "ewr", "jfk")
        bring("to jfk", first)
        time.sleep(60)
        assert took("back to ewr", first, "rollback")["step"] == "ready"
        bring("to jfk again", first)
        assert took("to jfk again", first, "cleanup", "--force")["step"] == "done"
        second = migrator_of(clusters, "jfk", "lga")
        bring("on to lga", second)
        assert took("on to lga", second, "cleanup", "--force")["step"] == "done"
        go_on(traffic, java, "after the clean-up")
    finally:
        traffic.stop()
        of_java = java.stop()
    repeated = {name: traffic.repeated(name) for name in traffic.received}
    print({"python": traffic.published, "repeated": repeated, "java": of_java, "moves": moves, "took_s": took_s})  # noqa: T201 - figures of a long test
    assert [(each["topics"], each["released"]) for each in moves.values()] == [(len(TOPICS), [])] * 4
    assert traffic.failures == of_java["failures"] == []
    assert traffic.out_of_order == of_java["outOfOrder"] == []
    held = sum(each["redelivered_unacknowledged"] for each in moves.values())
    for subscription, received in traffic.received.items():
        received_by_java = of_java["received"][subscription]
        assert len(received) == traffic.published, f"{subscription} has lost messages"
        assert received_by_java["messages"] == of_java["published"], f"{subscription} has lost messages in Java"
        assert traffic.repeated(subscription) + received_by_java["repeated"] <= held
    assert_left(clusters, left, traffic.published + of_java["published"])


def migrator_of(clusters: LocalClusters, source: str, target: str) -> Migrator:
    directory = clusters.directory / f"{source}-{target}"
    return Migrator("shop", clusters.members[source], clusters.members[target], directory, timeout_s=TIMEOUT_S)


def go_on(traffic: Traffic, java: JavaTraffic, where: str) -> None:
    """Wait for more traffic."""
    traffic.go_on(where)
    java.go_on(where)


def filled(service_url: str) -> dict[str, Left]:
    """Fill all topics, acknowledge some messages at random, and return the others by topic."""
    context = multiprocessing.get_context("spawn")  # a client's threads do not survive a fork
    with ProcessPoolExecutor(max_workers=2, mp_context=context) as pool:
        return dict(zip(TOPICS, pool.map(partial(fill, service_url), TOPICS), strict=True))


def fill(service_url: str, topic: str) -> Left:
    """Fill a topic, acknowledge some messages at random, and return the others."""
    client, chance = connect(service_url), random.Random(topic)
    consumers = {
        name: client.subscribe(topic, name, consumer_type=kind, batch_index_ack_enabled=True)
        for name, kind in KINDS.items()
    }
    batching = {"batching_enabled": TOPICS.index(topic) % 2 == 1, "batching_max_messages": PER_BATCH}
    producer = client.create_producer(topic, block_if_queue_full=True, **batching)
    for number, payload in enumerate(numbered(COUNT)):
        producer.send_async(payload, lambda *_: None, partition_key=str(number % KEYS))
    producer.flush()
    for number in range(DELAYED):
        producer.send(b"delayed %d" % number, deliver_after=timedelta(hours=10))
    left: Left = {}
    for name, consumer in consumers.items():
        left[name] = []
        for message in receive(consumer, COUNT):
            if int(message.data()) < COUNT // 2 or chance.random() < 0.5:
                consumer.acknowledge(message)
            else:
                left[name].append(message.data())
        left[name].sort()
    time.sleep(ACKNOWLEDGED_S)
    client.close()
    return left


def assert_left(clusters: LocalClusters, left: dict[str, Left], of_traffic: int) -> None:
    """Check that lga delivers exactly the messages that were not acknowledged in ewr, and those of the traffic."""
    client, found_of_traffic = clusters.client("lga"), dict.fromkeys(KINDS, 0)
    for topic, of_topic in left.items():
        for name, unacknowledged in of_topic.items():
            # Otherwise the client acknowledges a batch when all its messages were, also those that it did not get.
            consumer = client.subscribe(topic, name, consumer_type=KINDS[name], batch_index_ack_enabled=True)
            found = []
            for message in receive_until_quiet(consumer):
                found.append(message.data())
                consumer.acknowledge(message)
            consumer.close()
            assert sorted(each for each in found if each.isdigit()) == unacknowledged, f"{name} of {topic}"
            assert len(found) == len(set(found)), f"{name} of {topic} has repeated messages"
            found_of_traffic[name] += len(found) - len(unacknowledged)
        stats = clusters.rest("lga").get(f"{topic.replace('://', '/')}/stats")["subscriptions"]
        assert [stats[name]["msgBacklog"] for name in KINDS] == [DELAYED] * len(KINDS), topic
    assert found_of_traffic == dict.fromkeys(KINDS, of_traffic)
