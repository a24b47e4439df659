"""Termination of topics, as in Apache Pulsar 4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish, receive_data
from tests.kit.raw import RawConnection
from tests.kit.rest import topic_path
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def end_of(broker: Broker, topic: str) -> tuple[int, int]:
    """Terminate the topic; return the position of its last entry."""
    last = broker.rest.call("POST", f"{topic_path(topic)}/terminate")
    return last["ledgerId"], last["entryId"]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker for one test."""
    with Broker(tmp_path) as running:
        yield running


def test_a_terminated_topic_takes_no_messages(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    last = [producer.send(each) for each in numbered(5)][-1]
    assert end_of(broker, topic) == (last.ledger_id(), last.entry_id())
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"late")
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert receive_data(consumer, 5) == numbered(5)
    assert broker.rest.internal_stats(topic)["state"] == "Terminated"
    info = broker.rest.get(f"{topic_path(topic)}/internal-info")
    assert info["terminatedPosition"] == {"ledgerId": last.ledger_id(), "entryId": last.entry_id()}


def test_a_producer_that_waits_for_access_is_refused(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive).send(b"0")
    with RawConnection.connected(broker.service_url) as waiting:
        waiting.send("PRODUCER", topic=topic, producer_id=0, request_id=7, producer_access_mode=2)
        assert not waiting.expect("PRODUCER_SUCCESS").producer_ready
        end_of(broker, topic)
        waiting.expect("CLOSE_PRODUCER")
    stats = broker.rest.stats(topic)
    assert (stats["publishers"], stats["waitingPublishers"], stats["msgInCounter"]) == ([], 0, 1)


def test_a_termination_is_durable(own_broker: Broker, topic: str) -> None:
    client = connect(own_broker.service_url)
    publish(client, topic, numbered(3))
    last = end_of(own_broker, topic)
    client.close()
    own_broker.kill()
    own_broker.start()
    assert end_of(own_broker, topic) == last
    client = connect(own_broker.service_url)
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    client.close()
    own_broker.rest.delete(topic_path(topic))
    client = connect(own_broker.service_url)
    publish(client, topic, numbered(1))  # a new topic of the same name
    client.close()


def test_partitions_are_terminated_together(broker: Broker, client: pulsar.Client, topic: str) -> None:
    path = topic_path(topic)
    broker.rest.put(f"{path}/partitions", 2)
    publish(client, topic, numbered(4))
    refused = broker.rest.request("POST", f"{path}/terminate")
    assert (refused.status_code, refused.json()["reason"]) == (405, "Termination of a partitioned topic is not allowed")
    ends = broker.rest.call("POST", f"{path}/terminate/partitions")
    assert [ends[index]["entryId"] for index in ("0", "1")] == [1, 1]
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)


def test_a_replicated_topic_cannot_be_terminated(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic, here = f"persistent://{namespace}/t", broker.cluster
    broker.rest.ensure("clusters/far", {"serviceUrl": "http://far:8080", "brokerServiceUrl": "pulsar://far:6650"})
    tenant = broker.rest.get("tenants/public")
    clusters = sorted({*tenant["allowedClusters"], "far"})
    broker.rest.post("tenants/public", {**tenant, "allowedClusters": clusters})
    publish(client, topic, numbered(1))
    broker.rest.post(f"namespaces/{namespace}/replication", [here, "far"])
    refused = broker.rest.request("POST", f"{topic_path(topic)}/terminate")
    assert refused.status_code == 412
    assert refused.json() == {"reason": f"{topic} is replicated with far: a replicated topic cannot be terminated"}
    broker.rest.post(f"namespaces/{namespace}/replication", [here])
    end_of(broker, topic)


def test_consumers_are_told_the_end_when_all_is_acknowledged(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(2))
    with RawConnection.connected(broker.service_url) as raw:
        raw.subscribe(topic, "s", initialPosition=1)
        raw.flow(10)
        ids = [raw.expect("MESSAGE").message_id for _ in range(2)]
        end_of(broker, topic)
        raw.acknowledge(*ids)
        assert raw.expect("REACHED_END_OF_TOPIC").consumer_id == 1


@pytest.mark.parametrize(("version", "told"), [("Pulsar-Java-v4.0.7", True), ("Pulsar-CPP-v4.2.0", False)])
def test_a_new_consumer_is_told_the_end_if_its_client_understands(
    broker: Broker, client: pulsar.Client, topic: str, version: str, *, told: bool
) -> None:
    client.subscribe(topic, "s").close()
    end_of(broker, topic)
    with RawConnection(broker.service_url) as raw:
        raw.send("CONNECT", client_version=version, protocol_version=20, auth_method_name="none")
        raw.expect("CONNECTED")
        raw.subscribe(topic, "s")
        if told:
            raw.expect("REACHED_END_OF_TOPIC")
        else:
            raw.request("CLOSE_CONSUMER", "SUCCESS", consumer_id=1)
            assert raw.received("REACHED_END_OF_TOPIC") == []


def test_the_official_client_stays_connected_at_the_end(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(3))
    end_of(broker, topic)
    (before,) = broker.rest.stats(topic)["subscriptions"]["s"]["consumers"]
    assert receive_data(consumer, 3, acknowledge=True) == numbered(3)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
    (after,) = broker.rest.stats(topic)["subscriptions"]["s"]["consumers"]
    assert after["address"] == before["address"]
