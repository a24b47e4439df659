"""The admin REST API together with the client: changes by one are visible to the other."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from pulsar import ConsumerType, InitialPosition

from tests.kit.messages import (
    nothing_comes,
    numbered,
    publish,
    publish_in_batches,
    read_log,
    receive,
    receive_data,
)
from tests.kit.rest import topic_path
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    import pulsar

    from tests.kit.broker import Broker


def test_stats_show_producers_and_consumers(broker: Broker, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, producer_name="tower", properties={"runway": "4L"})
    client.subscribe(topic, "s", ConsumerType.Shared, consumer_name="gate")
    for payload in numbered(5):
        producer.send(payload)
    wait_until(lambda: broker.rest.stats(topic)["subscriptions"]["s"]["unackedMessages"] == 5)
    stats = broker.rest.stats(topic)
    (publisher,) = stats["publishers"]
    assert (publisher["producerName"], publisher["metadata"]) == ("tower", {"runway": "4L"})
    assert stats["msgInCounter"] == 5
    subscription = stats["subscriptions"]["s"]
    assert (subscription["type"], subscription["msgBacklog"], subscription["isDurable"]) == ("Shared", 5, True)
    (consumer,) = subscription["consumers"]
    assert (consumer["consumerName"], consumer["availablePermits"]) == ("gate", 995)


def test_internal_stats_show_the_log(broker: Broker, client: pulsar.Client, topic: str) -> None:
    last = publish(client, topic, numbered(7))[-1]
    internal = broker.rest.internal_stats(topic)
    assert internal["numberOfEntries"] == 7
    assert internal["lastConfirmedEntry"] == f"{last.ledger_id()}:{last.entry_id()}"


def test_counters_of_batches_count_messages(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish_in_batches(client, topic, numbered(30), per_batch=10)
    assert broker.rest.stats(topic)["msgInCounter"] == 30
    assert broker.rest.internal_stats(topic)["numberOfEntries"] == 3


@pytest.mark.parametrize(("position", "expected"), [("earliest", numbered(4)), ("latest", [b"3"])])
def test_subscription_made_by_hand(
    broker: Broker, client: pulsar.Client, topic: str, position: str, expected: list[bytes]
) -> None:
    publish(client, topic, numbered(3))
    broker.rest.put(f"{topic_path(topic)}/subscription/s", position)
    publish(client, topic, [b"3"])
    assert receive_data(client.subscribe(topic, "s"), len(expected)) == expected
    assert broker.rest.get(f"{topic_path(topic)}/subscriptions") == ["s"]


def test_skip_messages(broker: Broker, client: pulsar.Client, topic: str) -> None:
    broker.rest.put(topic_path(topic), {})
    broker.rest.put(f"{topic_path(topic)}/subscription/s", "earliest")
    publish(client, topic, numbered(10))
    broker.rest.post(f"{topic_path(topic)}/subscription/s/skip/4")
    assert receive_data(client.subscribe(topic, "s"), 6) == numbered(6, first=4)


def test_clear_backlog(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    publish(client, topic, numbered(10))
    broker.rest.post(f"{topic_path(topic)}/subscription/s/skip_all")
    assert broker.rest.backlog(topic, "s") == 0
    assert nothing_comes(client.subscribe(topic, "s"))


def test_reset_cursor_to_a_position(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ids = publish(client, topic, numbered(10))
    receive(consumer, 10, acknowledge=True)
    consumer.close()
    position = {"ledgerId": ids[3].ledger_id(), "entryId": ids[3].entry_id(), "partitionIndex": -1}
    broker.rest.post(f"{topic_path(topic)}/subscription/s/resetcursor", position)
    assert receive_data(client.subscribe(topic, "s"), 7) == numbered(7, first=3)


def test_reset_cursor_to_a_time(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(5))
    first = receive(consumer, 5, acknowledge=True)[0]
    broker.rest.post(f"{topic_path(topic)}/subscription/s/resetcursor/{first.publish_timestamp()}")
    assert receive_data(consumer, 5) == numbered(5)


def test_unload_is_hardly_noticed(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    assert receive_data(consumer, 1, acknowledge=True) == [b"before"]
    wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
    broker.rest.put(f"{topic_path(topic)}/unload")
    producer.send(b"after")
    assert receive_data(consumer, 1) == [b"after"]
    assert [message.data() for message in read_log(client, topic)][-1] == b"after"


def test_topic_in_use_is_not_deleted(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    assert broker.rest.request("DELETE", topic_path(topic)).status_code == HTTPStatus.PRECONDITION_FAILED
    consumer.unsubscribe()
    broker.rest.delete(topic_path(topic))
    assert broker.rest.request("GET", f"{topic_path(topic)}/stats").status_code == HTTPStatus.NOT_FOUND


def test_deleted_topic_starts_anew(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(5))
    broker.rest.delete(topic_path(topic))
    publish(client, topic, [b"new"])
    assert [message.data() for message in read_log(client, topic)] == [b"new"]


def test_subscription_in_use_is_not_deleted(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    path = f"{topic_path(topic)}/subscription/s"
    assert broker.rest.request("DELETE", path).status_code == HTTPStatus.PRECONDITION_FAILED
    consumer.close()
    broker.rest.delete(path)
    assert broker.rest.get(f"{topic_path(topic)}/subscriptions") == []


def test_topic_of_the_admin_is_the_topic_of_the_client(broker: Broker, client: pulsar.Client, topic: str) -> None:
    broker.rest.put(topic_path(topic), {})
    assert broker.rest.request("PUT", topic_path(topic), {}).status_code == HTTPStatus.CONFLICT
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    publish(client, topic, [b"x"])
    assert receive_data(consumer, 1) == [b"x"]
    assert topic in broker.rest.get("persistent/public/default")


def test_replicated_flag_is_kept(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", replicate_subscription_state_enabled=True)
    assert broker.rest.stats(topic)["subscriptions"]["s"]["isReplicated"]
    path = f"{topic_path(topic)}/subscription/s/replicatedSubscriptionStatus"
    assert broker.rest.get(path) == {topic: True}
    broker.rest.post(path, body=False)
    assert not broker.rest.stats(topic)["subscriptions"]["s"]["isReplicated"]


def test_metrics_name_the_topic(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(3))
    text = broker.rest.metrics()
    assert any(line.startswith("pulsar_in_messages_total") and topic in line for line in text.splitlines())
