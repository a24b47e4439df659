"""An official client of the broker of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.messages import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulsar

    from tests.kit.broker import Broker


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[pulsar.Client]:
    connected = connect(broker.service_url)
    yield connected
    connected.close()
