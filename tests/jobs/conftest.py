"""A process for commands, and an official client of the broker of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.messages import connect
from tests.kit.one_process import OneProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulsar

    from tests.kit.broker import Broker


@pytest.fixture(scope="package", autouse=True)
def short_lived_java() -> Iterator[None]:
    """Let the Java of each command compile less, which takes longer than it saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="package")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    """A process for the commands that no test interrupts, because Java starts slowly."""
    with OneProcess(tmp_path_factory.mktemp("commands")) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[pulsar.Client]:
    connected = connect(broker.service_url)
    yield connected
    connected.close()
