"""``magnetar pipeline audit`` of clusters that replicate to each other while clients publish and acknowledge."""

from __future__ import annotations

import os
import random
import threading
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.jobs.logs import audit
from tests.kit.clusters import LocalClusters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.one_process import OneProcess

NAMES = ("ewr", "jfk")
NAMESPACE = "audit/traffic"
TOPICS = [f"persistent://{NAMESPACE}/{name}" for name in ("orders", "parcels")]
SUBSCRIPTION = "shop"
PER_SECOND = 200
RECEIVE_MS = 200
RUNS = int(os.environ.get("MAGNETAR_CLEAN_AUDITS", "50"))
"""Number of audits."""


class Traffic:
    """In both clusters, a producer of batches for each topic, and a consumer that acknowledges out of order."""

    def __init__(self, clusters: LocalClusters) -> None:
        """Begin without traffic."""
        self._clusters = clusters
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: list[Exception] = []

    def start(self) -> None:
        """Start all clients."""
        for name in NAMES:
            for topic in TOPICS:
                for work in (self._publish, self._consume):
                    thread = threading.Thread(target=self._run, args=(work, name, topic))
                    thread.start()
                    self._threads.append(thread)

    def stop(self) -> None:
        """Stop all clients."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: object, name: str, topic: str) -> None:
        try:
            work(self._clusters.client(name), topic)  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - the test reports it
            self.failures.append(error)

    def _publish(self, client: pulsar.Client, topic: str) -> None:
        producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=5)
        number = 0
        while not self._stop.wait(1 / PER_SECOND):
            number += 1
            producer.send_async(b"%d" % number, lambda *_: None)
        producer.flush()

    def _consume(self, client: pulsar.Client, topic: str) -> None:
        consumer = client.subscribe(
            topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            replicate_subscription_state_enabled=True,
            batch_index_ack_enabled=True,
        )
        chance = random.Random(1)
        held: list[pulsar.Message] = []
        while not self._stop.is_set():
            try:
                held.append(consumer.receive(RECEIVE_MS))
            except pulsar.Timeout:
                continue
            if len(held) > 50:
                consumer.acknowledge(held.pop(chance.randrange(len(held))))


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    keep = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    with LocalClusters(tmp_path, NAMES, keep) as running:
        running.make_namespace(NAMESPACE, NAMES)
        running.start_pipeline("--lease-seconds", "15")
        running.wait_for_pipeline()
        yield running


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_no_finding_under_traffic(commands: OneProcess, clusters: LocalClusters, tmp_path: Path) -> None:
    traffic = Traffic(clusters)
    traffic.start()
    try:
        for number in range(RUNS):
            state = ("--state", str(tmp_path / "state")) if number % 2 else ()
            arguments = ("--namespaces", NAMESPACE, "--settle-seconds", "10", *state)
            found = audit(commands, clusters.brokers, *arguments, work=tmp_path)
            assert (found.status, found.report.get("findings")) == (0, []), found.log
            assert found.report["subscriptions"] == {"compared": len(TOPICS), "notCompared": []}
            compared = {(each["topic"], each["cluster"]): each["compared"] for each in found.report["topics"]}
            assert compared.keys() == {(topic, name) for topic in TOPICS for name in NAMES}
            assert min(compared.values()) > 0
    finally:
        traffic.stop()
    assert traffic.failures == []
