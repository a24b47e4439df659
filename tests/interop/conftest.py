"""Apache Pulsar for the whole suite; without Java, or Maven to download it, the suite is skipped with the reason."""

from __future__ import annotations

import os
import secrets
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from magnetar.spark import MagnetarDataSource
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.messages import publish, read_log
from tests.kit.pulsar import MixedClusters, PulsarClusters, PulsarStandalone
from tests.kit.pulsar_jars import PulsarUnavailableError, java, pulsar_jars
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.clusters import Group


@pytest.fixture(scope="session")
def peer() -> None:
    """Skip the test if Apache Pulsar cannot be run."""
    try:
        java()
        pulsar_jars()
    except PulsarUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def apache(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    """One Apache Pulsar."""
    with PulsarStandalone(tmp_path_factory.mktemp("apache"), "apache") as running:
        yield running


@pytest.fixture(scope="module")
def pair(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarClusters]:
    """Two Apache Pulsars."""
    with PulsarClusters(tmp_path_factory.mktemp("pair"), ("one", "two")) as running:
        yield running


@pytest.fixture(scope="module")
def mixed(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedClusters]:
    """Apache Pulsar and Magnetar."""
    with MixedClusters(tmp_path_factory.mktemp("mixed"), magnetar=("ewr",), apache=("apache",)) as running:
        yield running


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Spark with the data source."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.dataSource.register(MagnetarDataSource)
    yield session
    session.stop()


def replicated_topic(group: Group) -> str:
    """Return a topic in a new namespace that is replicated between all clusters of the group."""
    namespace = f"interop/{secrets.token_hex(4)}"
    group.make_namespace(namespace, sorted(group.members))
    return f"persistent://{namespace}/t"


def wait_until_carried(clusters: Group, topic: str) -> None:
    """Wait until messages from each cluster reach all others."""
    for name in clusters.members:
        clusters.client(name).subscribe(topic, "keeps the log").close()
        publish(clusters.client(name), topic, [name.encode()])
    for name in clusters.members:
        has = partial(has_messages, clusters, name, topic, len(clusters.members))
        wait_until(has, UP_TIMEOUT_S, what=f"everything in {name}", interval_s=0.5)


def has_messages(clusters: Group, name: str, topic: str, count: int) -> bool:
    """Return whether the log has at least ``count`` messages."""
    return len(read_log(clusters.client(name), topic)) >= count
