"""Names have a maximum length. Existing longer names stay valid, and are replicated."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import AdminError, ServerError
from magnetar.base.limits import NAME_LENGTH_MAX, Limit
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.sim.cluster import Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.sim.cluster import Client

PREFIX = "persistent://public/default/"
LONG = "x" * (NAME_LENGTH_MAX + 1)
LONGEST_TOPIC = PREFIX + "x" * (NAME_LENGTH_MAX - len(PREFIX))
LONG_TOPIC = TopicName.parse(f"{LONGEST_TOPIC}x")


def hits(cluster: Cluster) -> int:
    return cluster.environment.limit_hits.counts()[Limit.NAME_LENGTH.value]


def look_up(client: Client) -> list[Any]:
    client.say(commands.encode(pb.CommandLookupTopic(topic=str(client.topic), request_id=1)))
    return client.take("LOOKUP_RESPONSE")


def ask_for_partitions(client: Client) -> list[Any]:
    client.say(commands.encode(pb.CommandPartitionedTopicMetadata(topic=str(client.topic), request_id=1)))
    return client.take("PARTITIONED_METADATA_RESPONSE")


def produce(client: Client) -> list[Any]:
    client.produce()
    return client.take("ERROR") or client.take("PRODUCER_SUCCESS")


def subscribe(client: Client) -> list[Any]:
    client.subscribe()
    return client.take("ERROR") or client.take("SUCCESS")


REQUESTS = [look_up, ask_for_partitions, produce, subscribe]


@pytest.mark.parametrize("request_of", REQUESTS)
@pytest.mark.parametrize("kind", ["non-partitioned", "partitioned"])
def test_a_topic_with_a_long_name_is_not_created(request_of: Callable[[Client], list[Any]], kind: str) -> None:
    cluster = Cluster(settings={"allowAutoTopicCreationType": kind})
    client = cluster.client()
    client.topic = LONG_TOPIC
    (answer,) = request_of(client)
    assert answer.error == ServerError.InvalidTopicName
    assert f"the name of a topic may have {NAME_LENGTH_MAX} bytes (maxNameLength)" in answer.message
    assert len(answer.message) < 300
    assert hits(cluster) == 1
    assert list(cluster.environment.resources.topics.of_namespace(LONG_TOPIC.namespace_name)) == []


@pytest.mark.parametrize("request_of", REQUESTS)
def test_the_longest_name_is_allowed(request_of: Callable[[Client], list[Any]]) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.topic = TopicName.parse(LONGEST_TOPIC)
    (answer,) = request_of(client)
    assert type(answer).__name__ != "CommandError"
    assert hits(cluster) == 0


def with_long_topics() -> Cluster:
    """Return a cluster whose limit was lowered after the creation of the topics."""
    cluster = Cluster(settings={"maxNameLength": NAME_LENGTH_MAX + 100})
    for topic in (LONG_TOPIC, TopicName.parse(f"{LONG_TOPIC}y-partition-0")):
        client = cluster.client()
        client.topic = topic
        client.produce()
        client.send("kept")
        client.subscribe(subscription=LONG)
    cluster.do(lambda: cluster.partition(TopicName.parse(f"{LONG_TOPIC}z"), 2))
    cluster.settings["maxNameLength"] = NAME_LENGTH_MAX
    cluster.crash()
    return cluster


@pytest.mark.parametrize("suffix", ["", "y-partition-0", "z-partition-1"])
@pytest.mark.parametrize("request_of", REQUESTS)
def test_existing_topics_keep_their_names(suffix: str, request_of: Callable[[Client], list[Any]]) -> None:
    cluster = with_long_topics()
    client = cluster.client()
    client.topic = TopicName.parse(f"{LONG_TOPIC}{suffix}")
    (answer,) = request_of(client)
    assert type(answer).__name__ != "CommandError"
    assert hits(cluster) == 0


def test_a_subscription_that_is_there_keeps_its_name() -> None:
    cluster = with_long_topics()
    client = cluster.client()
    client.topic = LONG_TOPIC
    client.subscribe(subscription=LONG)
    assert client.messages() == ["kept"]
    cluster.do(lambda: cluster.partition(TopicName.parse(f"{PREFIX}parts"), 1))
    old = cluster.topic(TopicName.parse(f"{PREFIX}parts-partition-0"))
    cluster.do(lambda: old.create_subscription(LONG, old.log.before_first()))
    cluster.do(lambda: cluster.partition(TopicName.parse(f"{PREFIX}parts"), 2))
    assert LONG in cluster.topic(TopicName.parse(f"{PREFIX}parts-partition-1")).subscriptions


@pytest.mark.parametrize("name", ["pulsar.repl.jfk-->ewr", "magnetar.progress.jfk"])
@pytest.mark.parametrize("suffix", ["", "-partition-0"])
def test_a_link_brings_a_topic_with_a_long_name(name: str, suffix: str) -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    client.topic = TopicName.parse(f"{LONG_TOPIC}{suffix}")
    client.produce(name=name)
    assert len(client.take("PRODUCER_SUCCESS")) == 1
    assert client.topic in cluster.topics.loaded


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("producer", lambda client: client.produce(name=LONG)),
        ("subscription", lambda client: client.produce(initial_subscription_name=LONG)),
        ("subscription", lambda client: client.subscribe(subscription=LONG)),
        ("subscription", lambda client: client.subscribe(subscription=LONG, durable=False)),
        ("consumer", lambda client: client.subscribe(consumer_name=LONG)),
    ],
)
def test_clients_with_long_names_are_refused(kind: str, ask: Callable[[Client], None]) -> None:
    cluster = Cluster()
    client = cluster.client()
    ask(client)
    (answer,) = client.take("ERROR")
    assert answer.error == ServerError.NotAllowedError
    assert answer.message.startswith(f"the name of a {kind} may have {NAME_LENGTH_MAX} bytes (maxNameLength): 'xxx")
    assert hits(cluster) == 1
    assert list(cluster.topic().subscriptions) == []


@pytest.mark.parametrize(
    "create",
    [
        lambda admin: admin.topics.create(LONG_TOPIC, {}),
        lambda admin: admin.topics.create_partitioned(LONG_TOPIC, 1, {}),
        lambda admin: admin.subscriptions.create(TopicName.parse("orders"), LONG, EARLIEST, replicated=False),
        lambda admin: admin.subscriptions.create(LONG_TOPIC, "worker", EARLIEST, replicated=False),
    ],
)
def test_operators_create_nothing_with_long_names(create: Callable[[Administration], Awaitable[None]]) -> None:
    cluster = Cluster()
    cluster.topic()
    administration = Administration(cluster.environment, cluster.domains, "")
    task = cluster.loop.start(create(administration))  # type: ignore[arg-type]
    cluster.settle()
    with pytest.raises(AdminError, match=r"\(maxNameLength\)") as raised:
        task.result()
    assert (raised.value.status, raised.value.limit) == (HTTPStatus.PRECONDITION_FAILED, Limit.NAME_LENGTH)
    assert list(cluster.environment.resources.topics.of_namespace(LONG_TOPIC.namespace_name)) == [
        TopicName.parse("orders")
    ]
    assert cluster.topics.partitions_of(LONG_TOPIC) is None
