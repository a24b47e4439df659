"""A cluster that is down, and a backlog: neither disturbs the progress between the others."""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from tests.geo.stories import (
    REPLICATION_TIMEOUT_S,
    backlog,
    entries,
    log_of,
    wait_for_backlog,
    wait_for_entries,
)
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.messages import connect, numbered, publish, publish_in_batches, receive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import Group, Up

PROGRESS_AGE_MAX_S = 1.0


class ProgressProbe:
    """Measures how long an acknowledgement in one cluster takes until it is applied in another."""

    def __init__(self, group: Group, topic: str, here: str, there: str, count: int) -> None:
        """Publish ``count`` messages in ``here`` and wait until both clusters hold them."""
        self._group, self._topic, self._there = group, topic, there
        self._client = connect(group.members[here].service_url)
        self._consumer = self._client.subscribe(
            topic, "probe", ConsumerType.Shared, replicate_subscription_state_enabled=True
        )
        publish(self._client, topic, numbered(count))
        wait_for_entries(group, topic, count, [there])
        wait_for_backlog(group, topic, "probe", count, [there])
        self._messages = receive(self._consumer, count)
        self._left = count

    def measure(self) -> float:
        """Acknowledge one message; return the seconds until the other cluster shows it, up to 0.1 the client's."""
        started = time.monotonic()
        self._left -= 1
        self._consumer.acknowledge(self._messages.pop())
        wait_until(
            lambda: backlog(self._group, self._there, self._topic, "probe") == self._left,
            what=f"acknowledgement applied in {self._there}",
            interval_s=0.005,
        )
        return time.monotonic() - started

    def has_more(self) -> bool:
        """Whether there is another message to acknowledge."""
        return self._left > 0

    def close(self) -> None:
        """Leave."""
        self._client.close()


def backlog_replication(up: Up, namespace: str, count: int) -> None:
    """Replicate a backlog of ``count`` messages and measure progress on another topic meanwhile."""
    loaded = f"{namespace}-loaded"
    for name in NAMES:
        up.make_local_namespace(name, loaded)
    topic = f"persistent://{loaded}/backlog"
    client = up.client("ewr")
    client.subscribe(topic, "keeps").close()
    publish_in_batches(client, topic, [bytes(1_000)] * 100, per_batch=100)
    producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=5_000)
    for number in range(count):
        producer.send_async(b"%d" % number + bytes(1_000), lambda *_: None)
    producer.flush()
    probe = ProgressProbe(up, f"persistent://{namespace}/probe", "ewr", "jfk", 200)
    for name in NAMES:
        up.rest(name).post(f"namespaces/{loaded}/replication", list(NAMES))
    ages = []
    while entries(up, "jfk", topic) < count + 1 and probe.has_more():
        ages.append(probe.measure())
    probe.close()
    wait_for_entries(up, topic, count + 1, NAMES)
    sys.stdout.write(
        f"progress age during a backlog of {count}: median {statistics.median(ages):.3f} s, max {max(ages):.3f} s\n"
    )
    assert max(ages) < PROGRESS_AGE_MAX_S


def test_progress_during_a_backlog(up: Up, namespace: str) -> None:
    backlog_replication(up, namespace, 20_000)


@pytest.mark.long
def test_progress_during_a_large_backlog(up: Up, namespace: str) -> None:
    backlog_replication(up, namespace, 200_000)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    directory: Path = tmp_path_factory.mktemp("down")
    with LocalClusters(directory) as running:
        running.make_namespace("geo/down")
        running.start_pipeline()
        yield running


@pytest.mark.parametrize("manner", ["killed", "frozen"])
def test_others_go_on_and_it_converges_when_it_is_back(clusters: LocalClusters, manner: str) -> None:
    topic = f"persistent://geo/down/{manner}"
    publish(clusters.client("lga"), topic, numbered(50))
    probe = ProgressProbe(clusters, f"{topic}-probe", "ewr", "jfk", 30)
    wait_for_entries(clusters, topic, 50, NAMES)
    wait_for_entries(clusters, f"{topic}-probe", 30, NAMES)
    calm = [probe.measure() for _ in range(10)]

    third = clusters.brokers["lga"]
    (third.kill if manner == "killed" else third.freeze)()
    publish(clusters.client("ewr"), topic, numbered(50, first=50))
    publish(clusters.client("jfk"), topic, numbered(50, first=100))
    wait_for_entries(clusters, topic, 150, ["ewr", "jfk"])
    alone = [probe.measure() for _ in range(20)]
    assert max(alone) < max(PROGRESS_AGE_MAX_S, 2 * max(calm))

    (third.start if manner == "killed" else third.thaw)()
    wait_for_entries(clusters, topic, 150, NAMES)
    for name in NAMES:
        assert sorted(log_of(clusters, name, topic), key=int) == numbered(150)
    wait_until(
        lambda: backlog(clusters, "lga", f"{topic}-probe", "probe") == 0,
        REPLICATION_TIMEOUT_S,
        what="progress applied in lga",
    )
    probe.close()


def test_pipeline_that_was_away_continues(clusters: LocalClusters) -> None:
    topic = "persistent://geo/down/pipeline"
    publish(clusters.client("ewr"), topic, numbered(50))
    wait_for_entries(clusters, topic, 50, NAMES)
    clusters.stop_pipeline()
    publish(clusters.client("ewr"), topic, numbered(50, first=50))
    consumer = clusters.client("ewr").subscribe(
        topic,
        "s",
        ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )
    receive(consumer, 100, acknowledge=True)
    wait_for_backlog(clusters, topic, "s", 0, NAMES)
    clusters.start_pipeline()
    wait_for_entries(clusters, topic, 100, NAMES)
    wait_for_backlog(clusters, topic, "s", 0, NAMES)
    for name in NAMES:
        assert log_of(clusters, name, topic) == numbered(100)
