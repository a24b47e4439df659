"""A broker with an empty data directory accepts its first client without any administration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.broker import Broker
from tests.kit.messages import connect

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "persistent://public/default/first"


def test_the_first_client_publishes_at_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "lone")
    broker.start()
    try:
        client = connect(broker.service_url)
        client.create_producer(TOPIC).send(b"hello")
        client.close()
        assert broker.rest.get("clusters") == ["lone"]
        registered = broker.rest.get("clusters/lone")
        assert registered["serviceUrl"] == broker.admin_url
        assert registered["brokerServiceUrl"] == broker.service_url
        assert broker.rest.get("tenants/public")["allowedClusters"] == ["lone"]
        assert broker.rest.get("namespaces/public/default")["replication_clusters"] == ["lone"]
    finally:
        broker.__exit__()


def test_a_start_on_other_ports_registers_them(tmp_path: Path) -> None:
    first = Broker(tmp_path, "lone")
    first.start()
    first.__exit__()
    second = Broker(tmp_path, "lone")
    assert second.service_url != first.service_url
    second.start()
    try:
        assert second.rest.get("clusters/lone")["brokerServiceUrl"] == second.service_url
        client = connect(second.service_url)
        client.create_producer(TOPIC).send(b"hello")
        client.close()
    finally:
        second.__exit__()


def test_a_later_start_changes_nothing_that_an_operator_set(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "lone")
    broker.start()
    try:
        broker.rest.request("DELETE", "namespaces/public/default").raise_for_status()
        moved = {"serviceUrl": "http://lone.example:8080", "brokerServiceUrl": "pulsar://lone.example:6650"}
        broker.rest.request("POST", "clusters/lone", moved).raise_for_status()
        broker.stop()
        broker.start()
        assert broker.rest.get("namespaces/public") == []
        assert broker.rest.get("clusters/lone")["brokerServiceUrl"] == moved["brokerServiceUrl"]
    finally:
        broker.__exit__()
