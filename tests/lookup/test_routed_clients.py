"""Clients with the address of one broker whose topics another cluster serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from tests.kit.messages import connect, numbered, publish, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
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
