"""A broker under attack, and a bystander that must not be affected."""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING

import pytest

from tests.kit.broker import Broker
from tests.kit.messages import connect, read_log
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests, which must be healthy after each."""
    with Broker(tmp_path_factory.mktemp("robustness")) as running:
        yield running


class Bystander:
    """A well-behaved client on one connection that publishes and consumes during attacks."""

    def __init__(self, broker: Broker) -> None:
        """Connect, create a producer, subscribe."""
        self._broker = broker
        self._pid = broker.pid
        self._topic = f"persistent://public/default/bystander-{secrets.token_hex(4)}"
        self._connection = RawConnection.connected(broker.service_url)
        self._connection.create_producer(self._topic)
        self._connection.subscribe(self._topic, "s")
        self._published: list[bytes] = []
        self._sequence_ids = itertools.count()

    def goes_on(self) -> bool:
        """Publish one message and receive it on the original connection."""
        sequence_id = next(self._sequence_ids)
        payload = b"%d" % sequence_id
        receipt = self._connection.publish(payload, sequence_id=sequence_id)
        self._published.append(payload)
        self._connection.flow(1)
        message = self._connection.expect("MESSAGE")
        self._connection.acknowledge(message.message_id)
        return bool(message.message_id.entryId == receipt.message_id.entryId)

    def lost_nothing(self) -> bool:
        """Return whether the broker is the same process and its log has all published messages, once and in order."""
        self._broker.process.require_running()
        client = connect(self._broker.service_url)
        log = [message.data() for message in read_log(client, self._topic)]
        client.close()
        return self._broker.pid == self._pid and log == self._published

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@pytest.fixture
def bystander(broker: Broker) -> Iterator[Bystander]:
    """A bystander with a final check after the test."""
    present = Bystander(broker)
    try:
        assert present.goes_on()
        yield present
        assert present.goes_on()
        assert present.lost_nothing()
    finally:
        present.close()
