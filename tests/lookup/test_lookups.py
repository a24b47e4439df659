"""Clients and routes: with the address of one broker, and with a lookup service as their service URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.kit.child import LOOPBACK, free_ports
from tests.kit.lookup import Instance
from tests.kit.messages import connect, numbered, publish, receive_data
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lookup.conftest import Pair


def test_a_client_of_any_broker_uses_the_cluster_of_the_route(pair: Pair, tenant: str) -> None:
    topic, partitioned = f"persistent://{tenant}/n/a", f"persistent://{tenant}/n/p"
    pair.jfk.rest.put(f"persistent/{tenant}/n/p/partitions", 3)
    pair.route(tenant, "jfk")
    client = connect(pair.ewr.service_url)
    consumer = client.subscribe(topic, "s")
    assert client.get_topic_partitions(partitioned) == [f"{partitioned}-partition-{index}" for index in range(3)]
    publish(client, topic, numbered(3))
    assert receive_data(consumer, 3) == numbered(3)
    assert pair.ewr.rest.get(f"persistent/{tenant}/n") == []
    assert topic in pair.jfk.rest.get(f"persistent/{tenant}/n")
    path = f"/lookup/v2/topic/persistent/{tenant}/n/a"
    found = httpx.get(pair.ewr.admin_url + path, follow_redirects=True)
    assert found.json()["brokerUrl"] == pair.jfk.service_url
    client.close()


def test_connected_clients_follow_a_change_of_the_route(pair: Pair, tenant: str) -> None:
    topic = f"persistent://{tenant}/n/a"
    client = connect(pair.ewr.service_url)
    consumer, producer = client.subscribe(topic, "s"), client.create_producer(topic)
    producer.send(b"before")
    assert receive_data(consumer, 1) == [b"before"]
    pair.route(tenant, "jfk")
    wait_until(lambda: topic in pair.jfk.rest.get(f"persistent/{tenant}/n"))
    wait_until(lambda: "s" in pair.jfk.rest.stats(topic)["subscriptions"])
    producer.send(b"after")
    assert receive_data(consumer, 1) == [b"after"]
    stats = pair.ewr.rest.stats(topic)
    assert (stats["msgInCounter"], stats["publishers"], stats["subscriptions"]["s"]["consumers"]) == (1, [], [])
    pair.route(tenant, "ewr")
    wait_until(lambda: pair.ewr.rest.stats(topic)["subscriptions"]["s"]["consumers"])
    producer.send(b"back")
    assert receive_data(consumer, 2) == [b"before", b"back"]  # nothing carries acknowledgements here
    client.close()


@pytest.fixture(scope="module")
def shared_instance(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    shared = Instance(tmp_path_factory.mktemp("lookup"), [broker.admin_url for broker in pair])
    yield shared
    shared.kill()


@pytest.fixture
def instance(shared_instance: Instance) -> Instance:
    return shared_instance if shared_instance.process is not None else shared_instance.start()


def test_clients_publish_and_consume_through_it_and_follow_the_route(
    pair: Pair, instance: Instance, tenant: str
) -> None:
    topic, partitioned = f"persistent://{tenant}/n/a", f"persistent://{tenant}/n/p"
    pair.jfk.rest.put(f"persistent/{tenant}/n/p/partitions", 3)
    pair.ewr.rest.call("PUT", f"magnetar/routes/{tenant}", {"cluster": "jfk"})
    lookup = f"{instance.web_url}/lookup/v2/topic/persistent/{tenant}/n/a"
    wait_until(lambda: httpx.get(lookup).json()["brokerUrl"] == pair.jfk.service_url, 10)
    client = connect(instance.service_url)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(3))
    assert receive_data(consumer, 3) == numbered(3)
    assert client.get_topic_partitions(partitioned) == [f"{partitioned}-partition-{index}" for index in range(3)]
    assert topic in pair.jfk.rest.get(f"persistent/{tenant}/n")
    assert pair.ewr.rest.get(f"persistent/{tenant}/n") == []
    names = httpx.get(f"{instance.web_url}/admin/v2/namespaces/{tenant}/n/topics").json()
    assert topic in names
    partitions = httpx.get(f"{instance.web_url}/admin/v2/persistent/{tenant}/n/p/partitions").json()
    assert partitions["partitions"] == 3
    pair.route(tenant, "ewr")
    wait_until(lambda: httpx.get(lookup).json()["brokerUrl"] == pair.ewr.service_url, 10)
    publish(client, topic, [b"after"])
    assert pair.ewr.rest.stats(topic)["msgInCounter"] == 1
    metrics = httpx.get(f"{instance.web_url}/metrics").text
    assert 'magnetar_lookup_requests_total{outcome="answered",request="partitions"}' in metrics
    client.close()


def test_it_starts_from_the_kept_routes_while_the_brokers_are_away(pair: Pair, instance: Instance, tenant: str) -> None:
    pair.route(tenant, "jfk")
    kept = instance.directory / "data" / "routes.json"
    wait_until(lambda: kept.exists() and tenant in kept.read_text())
    instance.kill()
    (unused,) = free_ports(1)
    again = Instance(instance.directory, [f"http://{LOOPBACK}:{unused}"]).start()
    try:
        with RawConnection.connected(again.service_url) as raw:
            topic = f"persistent://{tenant}/n/a"
            answer = raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic)
            assert answer.brokerServiceUrl == pair.jfk.service_url
            refusal = raw.request("PRODUCER", "ERROR", topic=topic, producer_id=1)
            assert "look the topic up" in refusal.message
        assert f"http://{LOOPBACK}:{unused}" in httpx.get(f"{again.web_url}/health").json()["notFollowed"]
    finally:
        again.kill()
