"""The demo's readers with a real broker."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pytest

from magnetar.client.client import PulsarClient
from magnetar.demo.messages import Access
from magnetar.demo.plan import FLIGHT_PROPERTY, NAMESPACE, TENANT, TOPIC
from magnetar.demo.processes.readers import Census, Probe
from magnetar.demo.processes.workers import Arrived, Controls, Holding
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.entries.origin import SOURCE_POSITION
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from magnetar.demo.processes.workers import Report


class Steering:
    """See Controls."""

    def __init__(self) -> None:
        self.go, self.stop, self.broker_lost = threading.Event(), threading.Event(), threading.Event()


def flight(number: int, position: str = "") -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1_700_000_000_000 + number)
    metadata.properties.add(key=FLIGHT_PROPERTY, value=str(number))
    if position:
        metadata.properties.add(key=SOURCE_POSITION, value=position)
    return build_entry(metadata, b",".join([b""] * 12 + [b"EWR"]))


def publish(broker: Broker, *entries: bytes) -> None:
    async def run() -> None:
        client = PulsarClient(broker.service_url)
        producer = await client.create_producer(TOPIC, "p")
        for entry in entries:
            await producer.send(entry)
        await producer.close()
        client.close()

    asyncio.run(run())


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Broker]:
    """A broker with the demo's namespace."""
    with Broker(tmp_path) as broker:
        broker.rest.put(f"tenants/{TENANT}", {"adminRoles": [], "allowedClusters": [broker.cluster]})
        broker.rest.put(f"namespaces/{NAMESPACE}", {})
        yield broker


def test_a_census_counts_what_was_sent_again_and_what_came_twice(running: Broker) -> None:
    reports: list[Report] = []
    publish(running, flight(1), flight(2), flight(2), flight(3, "5:1"), flight(3, "5:2"), flight(3, "5:2"))
    Census("ewr", Access(running.service_url))(cast("Controls", Steering()), reports.append)
    assert reports == [Holding("ewr", messages=6, flights=3, resent=2, repeated=1)]


def test_a_probe_notes_what_comes_from_elsewhere_also_after_the_broker_was_lost(running: Broker) -> None:
    reports: list[Report] = []
    steering = Steering()

    def origins() -> list[str]:
        return [each.origin for report in reports if isinstance(report, Arrived) for each in report.arrivals]

    publish(running, flight(1, "5:1"))
    with ThreadPoolExecutor() as threads:
        done = threads.submit(Probe(Access(running.service_url)), cast("Controls", steering), reports.append)
        try:
            subscriptions = f"persistent/{TOPIC.removeprefix('persistent://')}/stats"
            wait_until(lambda: running.rest.get(subscriptions)["subscriptions"], what="the probe to read")
            publish(running, flight(2), flight(3, "5:2"))
            wait_until(lambda: origins() == ["ewr"], what="the first arrival")
            running.kill()
            running.start()
            publish(running, flight(4, "5:3"))
            wait_until(lambda: origins() == ["ewr", "ewr"], what="the second arrival")
        finally:
            steering.stop.set()
        done.result(30)
