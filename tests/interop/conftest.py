"""Apache Pulsar for the whole suite; without Java, or without Maven to fetch it, the suite is skipped and says why."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.kit.pulsar import MixedClusters, PulsarClusters, PulsarStandalone
from tests.kit.pulsar_jars import PulsarUnavailableError, java, pulsar_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.clusters import Group


@pytest.fixture(scope="session")
def peer() -> None:
    """Skip what asks for Apache Pulsar where it cannot be run."""
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


def replicated_topic(group: Group) -> str:
    """Return a topic of a new namespace that is replicated between all clusters of the group."""
    namespace = f"interop/{secrets.token_hex(4)}"
    group.make_namespace(namespace, sorted(group.members))
    return f"persistent://{namespace}/t"
