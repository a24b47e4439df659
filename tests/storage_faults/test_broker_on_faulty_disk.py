"""The broker's code and the official client on a disk that fails or is full."""

from __future__ import annotations

import contextlib
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.sim.virtual.disk import FaultyDisk
from tests.kit.in_process import BrokerInProcess
from tests.kit.messages import connect, numbered, publish, read_log, receive_data
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOPIC = "persistent://public/default/orders"
LOW_WATER, RESERVE = 200_000, 100_000


def log_of(client: pulsar.Client) -> list[bytes]:
    return [message.data() for message in read_log(client, TOPIC)]


def is_refused(broker: BrokerInProcess) -> bool:
    """Return whether a new producer is refused."""
    client = connect(broker.service_url, operation_timeout_seconds=2)
    try:
        client.create_producer(TOPIC)
    except pulsar.PulsarException:
        return True
    finally:
        client.close()
    return False


def consumes_all(broker: BrokerInProcess, consumer: pulsar.Consumer) -> bool:
    """Acknowledge all messages; return whether they are complete. Duplicates after a lost connection are allowed."""
    with contextlib.suppress(pulsar.Timeout):
        while True:
            consumer.acknowledge(consumer.receive(100))
    return broker.rest.backlog(TOPIC, "sub") == 0


class Sending:
    """Messages in flight, and their results."""

    def __init__(self, producer: pulsar.Producer, payloads: list[bytes]) -> None:
        self.results: list[pulsar.Result] = []
        self._count = len(payloads)
        self._done = threading.Event()
        for payload in payloads:
            producer.send_async(payload, self._ended)

    def _ended(self, result: pulsar.Result, _id: pulsar.MessageId) -> None:
        self.results.append(result)
        if len(self.results) == self._count:
            self._done.set()

    def wait(self) -> list[pulsar.Result]:
        assert self._done.wait(60), "every message is answered"
        return self.results


def test_after_a_failed_sync_nothing_is_confirmed_and_everything_confirmed_is_served(tmp_path: Path) -> None:
    disk = FaultyDisk()
    confirmed = numbered(10)
    with BrokerInProcess(tmp_path, disk) as broker:
        client = connect(broker.service_url)
        publish(client, TOPIC, confirmed)
        producer = client.create_producer(TOPIC, send_timeout_millis=2_000)
        consumer = client.subscribe(TOPIC, "sub", initial_position=pulsar.InitialPosition.Earliest)
        disk.fail_syncs = True
        assert set(Sending(producer, numbered(5, 10)).wait()) == {pulsar.Result.Timeout}
        assert receive_data(consumer, 10) == confirmed
        assert is_refused(broker)
        health = broker.rest.request("GET", "brokers/health")
        assert health.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
        assert "segment-0000000000000001.log: cannot sync" in health.text
        assert "restart the broker when the disk is repaired" in health.text
        assert 'magnetar_storage_failed{cluster="standalone"} 1.0' in broker.rest.metrics()
        assert log_of(client) == confirmed, "a reader that comes later is served as well"
        client.close()
    disk.fail_syncs = False
    with BrokerInProcess(tmp_path, disk) as broker:
        client = connect(broker.service_url)
        found = log_of(client)
        assert found[:10] == confirmed
        assert found[10:] == numbered(len(found) - 10, 10), "what was not confirmed may be there, and in order"
        publish(client, TOPIC, [b"again"])
        client.close()


@pytest.mark.parametrize(
    "fill",
    [lambda disk: setattr(disk, "room", LOW_WATER - 1), lambda disk: setattr(disk, "room", 0)],
    ids=["below the low-water mark", "to the last byte"],
)
def test_a_full_disk_holds_publishing_up_and_nothing_else(tmp_path: Path, fill: Callable[[FaultyDisk], None]) -> None:
    disk = FaultyDisk()
    before, after = numbered(100), numbered(200, 100)
    settings = {"diskLowWaterBytes": LOW_WATER, "diskReserveBytes": RESERVE}
    with BrokerInProcess(tmp_path, disk, **settings) as broker:
        client = connect(broker.service_url)
        producer = client.create_producer(TOPIC, send_timeout_millis=60_000, batching_enabled=False)
        consumer = client.subscribe(TOPIC, "sub", initial_position=pulsar.InitialPosition.Earliest)
        assert set(Sending(producer, before).wait()) == {pulsar.Result.Ok}
        broker.call(lambda: fill(disk))
        if disk.room:
            wait_until(lambda: not broker.rest.is_healthy(), what="somebody looked at the disk")
        held = Sending(producer, after)
        wait_until(lambda: not broker.rest.is_healthy(), what="the broker knows that the disk is full")
        assert 'magnetar_storage_full{cluster="standalone"} 1.0' in broker.rest.metrics()
        assert is_refused(broker)
        wait_until(lambda: consumes_all(broker, consumer), what="consuming and acknowledging go on")
        assert holds_for(lambda: not held.results, 0.5)
        disk.room = None
        assert set(held.wait()) == {pulsar.Result.Ok}
        assert log_of(client) == before + after, "each once, in order"
        wait_until(broker.rest.is_healthy, what="all is well again")
        client.close()
    with BrokerInProcess(tmp_path, disk, **settings) as broker:
        assert broker.rest.backlog(TOPIC, "sub") == len(after), "acknowledged while the disk was full, and durable"
