"""Clients of two networks reach each broker by an address of their own (PIP-61)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from tests.kit.broker import Broker
from tests.kit.child import free_ports
from tests.kit.lookup import Instance
from tests.kit.messages import connect, numbered, publish, receive_data
from tests.kit.processes import connected_ports
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OUTSIDE = "127.0.0.2"
"""Address by which clients of the other network arrive."""

NAMESPACE = "shop/orders"


class Clusters(NamedTuple):
    """Two clusters and a lookup service, with the ports for clients from outside."""

    ewr: Broker
    jfk: Broker
    lookup: Instance
    outside: dict[str, int]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    ports = dict(zip(("ewr", "jfk", "lookup"), free_ports(3), strict=True))
    with started(tmp_path_factory.mktemp("ewr"), ports) as ewr, started(tmp_path_factory.mktemp("jfk"), ports) as jfk:
        for broker, other in ((ewr, jfk), (jfk, ewr)):
            data = {"serviceUrl": other.admin_url, "brokerServiceUrl": other.service_url}
            broker.rest.ensure(f"clusters/{other.cluster}", data)
            broker.rest.ensure("tenants/shop", {"adminRoles": [], "allowedClusters": [broker.cluster]})
            broker.rest.ensure(f"namespaces/{NAMESPACE}", {"replication_clusters": [broker.cluster]})
            broker.rest.call("PUT", f"magnetar/routes/{quote(NAMESPACE, safe='')}", {"cluster": "jfk"})
        options = ["--bind-address", f"outside:pulsar://{OUTSIDE}:{ports['lookup']}"]
        lookup = Instance(tmp_path_factory.mktemp("lookup"), [ewr.admin_url, jfk.admin_url], options=options).start()
        yield Clusters(ewr, jfk, lookup, ports)
        lookup.kill()


def started(directory: Path, ports: dict[str, int]) -> Broker:
    """Return a broker with the listeners ``inside``, which is its ordinary port, and ``outside``."""
    broker = Broker(directory, directory.name.rstrip("0123456789"))
    inside, outside = f"inside:{broker.service_url}", f"outside:pulsar://{OUTSIDE}:{ports[broker.cluster]}"
    broker.settings |= {"advertisedListeners": f"{inside},{outside}", "bindAddresses": outside}
    return broker


def addresses(service_url: str, **fields: str) -> list[str]:
    """Return the address in the answer to a lookup."""
    with RawConnection.connected(service_url) as raw:
        topic = f"persistent://{NAMESPACE}/a"
        return [raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic, **fields).brokerServiceUrl]


def test_a_client_gets_the_address_of_its_listener(clusters: Clusters) -> None:
    inside, outside = clusters.jfk.service_url, f"pulsar://{OUTSIDE}:{clusters.outside['jfk']}"
    for name in ("ewr", "jfk"):  # ewr sends the client to jfk
        broker: Broker = getattr(clusters, name)
        arriving = f"pulsar://{OUTSIDE}:{clusters.outside[name]}"
        assert addresses(broker.service_url) == [inside]
        assert addresses(broker.service_url, advertised_listener_name="outside") == [outside]
        assert addresses(arriving) == [outside], "the port decides"
        assert addresses(arriving, advertised_listener_name="inside") == [inside], "the client decides"
    assert addresses(clusters.lookup.service_url) == [inside]
    assert addresses(clusters.lookup.service_url, advertised_listener_name="outside") == [outside]
    assert addresses(f"pulsar://{OUTSIDE}:{clusters.outside['lookup']}") == [outside]
    assert clusters.ewr.rest.get("clusters/ewr")["brokerServiceUrl"] == clusters.ewr.service_url


def test_lookups_by_http_name_a_listener(clusters: Clusters) -> None:
    path = f"/lookup/v2/topic/persistent/{NAMESPACE}/a"
    outside = f"pulsar://{OUTSIDE}:{clusters.outside['jfk']}"
    for url in (clusters.jfk.admin_url, clusters.ewr.admin_url, clusters.lookup.web_url):
        with httpx.Client(base_url=url, follow_redirects=True) as web:
            assert web.get(path).json()["brokerUrl"] == clusters.jfk.service_url
            assert web.get(path, params={"listenerName": "outside"}).json()["brokerUrl"] == outside
            assert web.get(path, params={"listenerName": "x"}).status_code == 412
    with httpx.Client(base_url=clusters.jfk.admin_url) as web:
        assert web.get(path, headers={"X-Pulsar-ListenerName": "outside"}).json()["brokerUrl"] == outside


def test_clients_from_outside_publish_and_consume_and_follow_a_route(clusters: Clusters) -> None:
    topic = f"persistent://{NAMESPACE}/b"
    arriving = connect(f"pulsar://{OUTSIDE}:{clusters.outside['lookup']}")
    naming = connect(clusters.ewr.service_url, listener_name="outside")
    consumer = arriving.subscribe(topic, "s")
    publish(naming, topic, numbered(3))
    assert receive_data(consumer, 3) == numbered(3)
    assert is_connected(clusters, "jfk")
    for broker in (clusters.ewr, clusters.jfk):
        broker.rest.call("PUT", f"magnetar/routes/{quote(topic, safe='')}", {"cluster": "ewr"})
    wait_until(lambda: topic in clusters.ewr.rest.get(f"persistent/{NAMESPACE}"), what="the topic in ewr")
    wait_until(lambda: "s" in clusters.ewr.rest.stats(topic)["subscriptions"], what="the consumer in ewr")
    publish(naming, topic, [b"after"])
    assert receive_data(consumer, 1) == [b"after"]
    assert is_connected(clusters, "ewr")
    arriving.close()
    naming.close()


def is_connected(clusters: Clusters, name: str) -> bool:
    """Return whether clients of this process are connected to the port of a broker for clients from outside."""
    return clusters.outside[name] in connected_ports(os.getpid())
