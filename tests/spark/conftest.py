"""One replication between fake clusters for all tests of this directory, because Spark starts slowly."""

from __future__ import annotations

import random
import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from magnetar.pipeline.driver.replicate import Event, Progress, Ready, Replication, Settings
from magnetar.pipeline.driver.settings import SparkSettings
from magnetar.pipeline.options import ClusterAddress
from magnetar.spark import MagnetarDataSource
from tests.kit.broker import Broker
from tests.kit.messages import connect
from tests.kit.wait import wait_until
from tests.spark.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pulsar

NAMES = ("ewr", "jfk", "lga")
LEASE_SECONDS = 8.0
READY_TIMEOUT_S = 120.0
QUERY_SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10000", "spark.sql.shuffle.partitions": "2"}


@dataclass
class Running:
    """The replication and its events."""

    work_dir: Path
    events: list[Event] = field(default_factory=list)

    def last_progress(self) -> Progress | None:
        return next((event for event in reversed(self.events) if isinstance(event, Progress)), None)


@pytest.fixture(scope="package")
def clusters() -> Iterator[dict[str, FakeCluster]]:
    running = {name: FakeCluster(name, tuple(peer for peer in NAMES if peer != name)) for name in NAMES}
    for cluster in running.values():
        cluster.__enter__()
    yield running
    for cluster in running.values():
        cluster.__exit__()


@pytest.fixture(scope="package")
def replication(clusters: dict[str, FakeCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("replicate"))
    addresses = tuple(ClusterAddress(name, each.broker_url, each.admin_url) for name, each in clusters.items())
    settings = Settings(addresses, LEASE_SECONDS, SparkSettings(work_dir=running.work_dir))
    stop = threading.Event()
    driver = Replication(settings, running.events.append, random.Random(1))
    thread = threading.Thread(target=driver.run, args=(stop,))
    thread.start()
    wait_until(lambda: any(isinstance(event, Ready) for event in running.events), READY_TIMEOUT_S, what="ready")
    yield running
    stop.set()
    thread.join()
    assert list(running.work_dir.iterdir()) == [], "everything is removed at the end"


@pytest.fixture(scope="package")
def spark(replication: Running) -> SparkSession:
    """A session in the Spark of all tests, which that of the replication is, with the data source ``magnetar``.

    It has Spark's own settings for queries, not those of the replication.
    """
    del replication
    session = SparkSession.builder.getOrCreate().newSession()
    for key, value in QUERY_SETTINGS.items():
        session.conf.set(key, value)
    session.dataSource.register(MagnetarDataSource)
    # This makes the session the active one of this thread, where Spark looks for the format of a write.
    session.createDataFrame([], "none int")
    return session


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that keeps all messages, in ledgers of at most 20 entries."""
    settings = {"managedLedgerMaxEntriesPerLedger": 20, "managedLedgerMinLedgerRolloverTimeMinutes": 0}
    with Broker(tmp_path_factory.mktemp("source"), settings=settings) as running:
        retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        running.rest.post("namespaces/public/default/retention", retention)
        yield running


@pytest.fixture(scope="package")
def client(broker: Broker) -> Iterator[pulsar.Client]:
    """An official client of the broker."""
    connected = connect(broker.service_url)
    yield connected
    connected.close()


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/t-{secrets.token_hex(4)}"


@pytest.fixture
def arrives(clusters: dict[str, FakeCluster], replication: Running) -> Callable[..., None]:
    """Wait until a topic of a cluster has exactly these payloads, in order."""

    def check(target: str, topic: str, payloads: list[bytes], timeout_s: float = 60.0) -> None:
        cluster = clusters[target]
        wait_until(lambda: len(cluster.payloads(topic)) >= len(payloads), timeout_s, what=f"{topic} in {target}")
        assert cluster.payloads(topic) == payloads

    return check
