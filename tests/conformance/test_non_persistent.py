"""Non-persistent topics, with the official client and the admin API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar import ConsumerType, MessageId, ProducerAccessMode, RegexSubscriptionMode
from pulsar.schema import JsonSchema, Record, String

from tests.kit.messages import nothing_comes, numbered, publish, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


@pytest.fixture
def news(namespace: str) -> str:
    return f"non-persistent://{namespace}/news"


def path(topic: str) -> str:
    return topic.replace("://", "/")


def status(broker: Broker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    answer = broker.rest.request(method, path, body)
    return answer.status_code, answer.json() if answer.content else None


class Flight(Record):  # type: ignore[misc]
    origin = String()


class Boat(Record):  # type: ignore[misc]
    captain = String(required=True)


@pytest.mark.parametrize("kind", list(ConsumerType.__members__.values()))
def test_messages_reach_the_present_consumers(client: pulsar.Client, news: str, kind: ConsumerType) -> None:
    publish(client, news, [b"early"])
    consumers = [client.subscribe(news, name, consumer_type=kind) for name in ("a", "b")]
    producer = client.create_producer(news)
    ids = [producer.send(data) for data in numbered(5)]
    assert {(each.ledger_id(), each.entry_id()) for each in ids} == {(0, 0)}
    for consumer in consumers:
        assert receive_data(consumer, 5, acknowledge=True) == numbered(5)
        nothing_comes(consumer)


def test_nothing_is_kept(client: pulsar.Client, news: str) -> None:
    consumer = client.subscribe(news, "s", consumer_type=ConsumerType.Shared, negative_ack_redelivery_delay_ms=100)
    producer = client.create_producer(news)
    producer.send(b"once")
    consumer.negative_acknowledge(consumer.receive(10_000))
    consumer.redeliver_unacknowledged_messages()
    consumer.seek(MessageId.earliest)
    nothing_comes(consumer)
    with pytest.raises(pulsar.PulsarException):
        consumer.get_last_message_id()
    producer.send(b"next")
    assert receive_data(consumer, 1) == [b"next"]


def test_messages_beyond_the_permits_are_dropped(broker: Broker, client: pulsar.Client, news: str) -> None:
    consumer = client.subscribe(news, "s", receiver_queue_size=10)
    publish(client, news, numbered(50))
    assert receive_data(consumer, 10) == numbered(10)
    stats = broker.rest.get(f"{path(news)}/stats")
    assert stats["subscriptions"]["s"]["msgDropCount"] == 40
    assert stats["msgInCounter"] == 50
    assert stats["msgOutCounter"] == 10
    assert stats["subscriptions"]["s"]["msgDropRate"] == 0.0
    publish(client, news, [b"again"])
    assert receive_data(consumer, 1) == [b"again"]


def test_producers_have_the_usual_access_modes(client: pulsar.Client, news: str) -> None:
    producer = client.create_producer(news, "a")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(news, "a")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(news, access_mode=ProducerAccessMode.Exclusive)
    producer.close()
    client.create_producer(news, access_mode=ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(news)


def test_schemas_are_registered_and_checked(broker: Broker, client: pulsar.Client, news: str) -> None:
    producer = client.create_producer(news, schema=JsonSchema(Flight))
    consumer = client.subscribe(news, "s", schema=JsonSchema(Flight))
    producer.send(Flight(origin="ewr"))
    assert consumer.receive(10_000).value().origin == "ewr"
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(news, schema=JsonSchema(Boat))
    schemas = f"schemas/{news.removeprefix('non-persistent://')}/schema"
    assert broker.rest.get(schemas)["type"] == "JSON"


def test_a_topic_exists_while_it_is_used(broker: Broker, client: pulsar.Client, namespace: str, news: str) -> None:
    assert broker.rest.get(f"non-persistent/{namespace}") == []
    missing = {"reason": f"Topic {news} not found"}
    for what in ("stats", "internalStats", "subscriptions", "partitions"):
        assert status(broker, "GET", f"{path(news)}/{what}") == (404, missing)
    broker.rest.put(path(news))
    assert status(broker, "PUT", path(news)) == (409, {"reason": "This topic already exists"})
    consumer, producer = client.subscribe(news, "s"), client.create_producer(news)
    assert broker.rest.get(f"non-persistent/{namespace}") == [news]
    assert broker.rest.get(f"{path(news)}/subscriptions") == ["s"]
    assert status(broker, "DELETE", path(news))[0] == 412
    broker.rest.put(f"{path(news)}/unload")
    wait_until(lambda: _clients(broker, news) == (1, 1), what="the clients are back")
    producer.send(b"after")
    assert receive_data(consumer, 1) == [b"after"]
    consumer.close()
    producer.close()
    assert broker.rest.get(f"{path(news)}/subscriptions") == []
    broker.rest.delete(path(news))
    assert broker.rest.get(f"non-persistent/{namespace}") == []


def _clients(broker: Broker, topic: str) -> tuple[int, int]:
    code, stats = status(broker, "GET", f"{path(topic)}/stats")
    return (len(stats["publishers"]), len(stats["subscriptions"])) if code == 200 else (0, 0)


def test_partitioned_topics(broker: Broker, client: pulsar.Client, namespace: str, news: str) -> None:
    broker.rest.put(f"{path(news)}/partitions", 3)
    assert broker.rest.get(f"non-persistent/{namespace}/partitioned") == [news]
    assert broker.rest.get(f"{path(news)}/partitions")["partitions"] == 3
    consumer = client.subscribe(news, "s", consumer_type=ConsumerType.Shared)
    publish(client, news, numbered(9))
    assert sorted(receive_data(consumer, 9)) == numbered(9)
    partitions = [f"{news}-partition-{index}" for index in range(3)]
    assert broker.rest.get(f"non-persistent/{namespace}") == partitions
    assert broker.rest.get(f"{path(news)}/partitioned-stats")["msgInCounter"] == 9
    assert broker.rest.get(f"{path(news)}/subscriptions") == ["s"]
    broker.rest.post(f"{path(news)}/partitions", 4)
    assert status(broker, "POST", f"{path(news)}/partitions", 2)[0] == 422
    assert status(broker, "DELETE", f"{path(news)}/partitions")[0] == 412
    assert status(broker, "DELETE", path(news))[0] == 409
    consumer.close()
    broker.rest.delete(f"{path(news)}/partitions")
    assert broker.rest.get(f"non-persistent/{namespace}/partitioned") == []


def test_regular_expressions_find_topics_of_the_requested_domains(
    broker: Broker, client: pulsar.Client, namespace: str, news: str
) -> None:
    stored = f"persistent://{namespace}/news-stored"
    producers = [client.create_producer(topic) for topic in (news, stored)]
    found = {
        mode: client.subscribe(
            re.compile(f"persistent://{namespace}/news.*"), f"s-{mode}", regex_subscription_mode=mode
        )
        for mode in RegexSubscriptionMode.__members__.values()
    }
    for producer in producers:
        producer.send(producer.topic().encode())
    assert receive_data(found[RegexSubscriptionMode.PersistentOnly], 1) == [stored.encode()]
    assert receive_data(found[RegexSubscriptionMode.NonPersistentOnly], 1) == [news.encode()]
    assert sorted(receive_data(found[RegexSubscriptionMode.AllTopics], 2)) == sorted([stored.encode(), news.encode()])
    topics = f"namespaces/{namespace}/topics"
    assert broker.rest.get(f"{topics}?mode=ALL") == [news, stored]
    assert broker.rest.get(f"{topics}?mode=NON_PERSISTENT") == [news]
    assert broker.rest.get(topics) == [stored]


def test_the_statistics_of_the_broker_include_it(
    broker: Broker, client: pulsar.Client, namespace: str, news: str
) -> None:
    publish(client, news, numbered(3))
    (bundle,) = broker.rest.get("broker-stats/topics")[namespace].values()
    assert bundle["non-persistent"][news]["msgInCounter"] == 3
    assert broker.rest.get("broker-stats/load-report")["nonPersistentTopicsEnabled"] is True
    assert f'topic="{news}"' in broker.rest.metrics()


def test_policies_of_a_topic_that_concern_its_clients(broker: Broker, client: pulsar.Client, news: str) -> None:
    assert status(broker, "POST", f"{path(news)}/maxProducers", 1) == (404, {"reason": f"Topic {news} not found"})
    producer = client.create_producer(news)
    broker.rest.post(f"{path(news)}/maxProducers", 1)
    assert broker.rest.get(f"{path(news)}/maxProducers") == 1
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(news)
    broker.rest.delete(f"{path(news)}/maxProducers")
    client.create_producer(news)
    producer.close()
    assert status(broker, "POST", f"{path(news)}/retention", {})[0] == 501


@pytest.mark.parametrize(
    ("method", "what", "code", "reason"),
    [
        ("GET", "lastMessageId", 405, "GetLastMessageId on a non-persistent topic is not allowed"),
        ("GET", "examinemessage", 405, "Examine messages on a non-persistent topic is not allowed"),
        ("GET", "messageid/5", 405, "Get message ID by timestamp on a non-persistent topic is not allowed"),
        ("GET", "subscription/s/position/1", 405, "Peek messages on a non-persistent topic is not allowed"),
        ("POST", "trim", 405, "Trim on a non-persistent topic is not allowed"),
        ("POST", "terminate", 406, "Need to provide a persistent topic name"),
        ("PUT", "subscription/s", 400, "Create subscription on non-persistent topic can only be done through client"),
        ("POST", "subscription/s/skip_all", 501, None),
    ],
)
def test_operations_on_stored_messages_are_refused(
    broker: Broker, news: str, method: str, what: str, code: int, reason: str | None
) -> None:
    broker.rest.put(path(news))
    answer = status(broker, method, f"{path(news)}/{what}")
    assert answer[0] == code
    assert reason is None or answer[1] == {"reason": reason}
