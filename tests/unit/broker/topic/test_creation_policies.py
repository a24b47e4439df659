"""Policies of what clients may create and use."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import AdminError, RequestError, ServerError
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.metadata.policy.values import AutoSubscriptionCreation, AutoTopicCreation
from magnetar.sim.cluster import TOPIC, Cluster, Exclusive, Failover, Shared, entry
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.mesh import Mesh
from tests.unit.broker.policies import set_in_namespace, set_in_topic

NEVER, ALWAYS = AutoSubscriptionCreation(), AutoSubscriptionCreation(allowAutoSubscriptionCreation=True)


def errors(client: Any) -> list[int]:  # noqa: ANN401 - a client of the simulator
    return [each.error for each in client.take("ERROR")]


# -- topics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of_broker", "of_namespace"), [(True, False), (False, True)])
def test_a_namespace_decides_whether_clients_create_topics(of_broker: bool, of_namespace: bool) -> None:
    cluster = Cluster(settings={"allowAutoTopicCreation": of_broker})
    creation = AutoTopicCreation(allowAutoTopicCreation=of_namespace, topicType="non-partitioned")
    set_in_namespace(cluster, autoTopicCreationOverride=creation)
    client = cluster.client()
    client.produce()
    client.subscribe()
    assert errors(client) == ([] if of_namespace else [ServerError.TopicNotFound] * 2)
    assert cluster.topics.exists(TOPIC) is of_namespace


def test_a_namespace_decides_the_type_of_new_topics() -> None:
    cluster = Cluster()
    creation = AutoTopicCreation(allowAutoTopicCreation=True, topicType="partitioned", defaultNumPartitions=3)
    set_in_namespace(cluster, autoTopicCreationOverride=creation)
    assert cluster.do(lambda: cluster.topics.partitions_for_client(TOPIC, create=True)) == 3
    assert cluster.topics.partitions_of(TOPIC) == 3


@pytest.mark.parametrize("name", [TOPIC, TopicName.parse("non-persistent://public/default/news")])
def test_a_missing_partition_is_not_found_unless_it_may_be_created(name: TopicName) -> None:
    """As in Apache Pulsar 4.0, for clients that name a partition."""
    cluster = Cluster()
    topics = cluster.domains.of(name)
    alone = name.partition(1)
    assert cluster.do(lambda: topics.partitions_for_client(alone, create=True)) == 0
    with pytest.raises(RequestError) as refusal:
        topics.partitions_for_client(alone, create=False)
    assert refusal.value.code == ServerError.TopicNotFound
    set_in_namespace(cluster, autoTopicCreationOverride=AutoTopicCreation(allowAutoTopicCreation=False))
    with pytest.raises(RequestError) as refusal:
        topics.partitions_for_client(alone, create=True)
    assert refusal.value.code == ServerError.TopicNotFound
    administration = Administration(cluster.environment, cluster.domains, "")
    service = administration.topics if name.is_persistent else administration.non_persistent
    cluster.loop.start(service.create_partitioned(name, 2, {})).result()
    assert cluster.do(lambda: topics.partitions_for_client(alone, create=False)) == 0


def test_a_client_creates_no_topic_that_is_none_of_the_partitions() -> None:
    """Clients of a topic that was deleted and created again with fewer partitions, or as a partitioned one."""
    cluster = Cluster()
    administration = Administration(cluster.environment, cluster.domains, "")
    cluster.loop.start(administration.topics.create_partitioned(TOPIC, 2, {})).result()
    for name in (TOPIC.partition(2), TOPIC):
        client = cluster.client()
        client.topic = name
        client.produce()
        client.subscribe()
        assert errors(client) == [ServerError.NotAllowedError] * 2
        assert not cluster.topics.exists(name)
    cluster.loop.start(administration.topics.update_partitioned(TOPIC, 3)).result()
    client = cluster.client()
    client.topic = TOPIC.partition(2)
    client.produce()
    client.subscribe()
    assert errors(client) == []


def test_a_namespace_takes_so_many_topics() -> None:
    cluster = Cluster(settings={"maxTopicsPerNamespace": 9})
    set_in_namespace(cluster, max_topics_per_namespace=3)
    administration = Administration(cluster.environment, cluster.domains, "")
    partitioned = TopicName.parse("persistent://public/default/p")
    cluster.topic()
    task = cluster.loop.start(administration.topics.create_partitioned(partitioned, 3, {}))
    assert isinstance(task.exception(), AdminError)
    assert cluster.topics.partitions_of(partitioned) is None
    cluster.do(lambda: cluster.partition(partitioned, 2))
    client = cluster.client()
    client.topic = TopicName.parse("persistent://public/default/one-more")
    client.produce()
    assert errors(client) == [ServerError.NotAllowedError]
    task = cluster.loop.start(administration.topics.create(client.topic, {}))
    error = task.exception()
    assert isinstance(error, AdminError)
    assert (error.status, str(error)) == (412, "Exceed maximum number of topics in namespace (maxTopicsPerNamespace)")
    set_in_namespace(cluster, max_topics_per_namespace=0)
    client.produce()
    assert errors(client) == []


def test_links_are_exempt_from_the_number_and_the_size_limits() -> None:
    mesh = Mesh("ewr", "jfk", settings={})
    jfk, other = mesh.clusters["jfk"], TopicName.parse("persistent://public/default/other")
    set_in_namespace(jfk, max_topics_per_namespace=1)
    assert list(jfk.topics.loaded) == [TOPIC]
    jfk.do(lambda: jfk.topics.linked.get_or_create(other))
    assert other in jfk.topics.loaded
    set_in_topic(mesh.clusters["jfk"], maxMessageSize=10)
    mesh.publish("ewr", "x" * 100)
    mesh.carry()
    assert mesh.entries("jfk") == 1


# -- subscriptions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_namespace", "of_topic", "is_created"),
    [(None, None, True), (NEVER, None, False), (NEVER, ALWAYS, True), (ALWAYS, NEVER, False)],
)
def test_policies_decide_whether_consumers_create_subscriptions(
    of_namespace: AutoSubscriptionCreation | None, of_topic: AutoSubscriptionCreation | None, *, is_created: bool
) -> None:
    cluster = Cluster()
    cluster.topic()
    set_in_namespace(cluster, autoSubscriptionCreationOverride=of_namespace)
    set_in_topic(cluster, autoSubscriptionCreationOverride=of_topic)
    client = cluster.client()
    client.subscribe()
    client.produce(1, "p", initial_subscription_name="first")
    refusals = [ServerError.SubscriptionNotFound, ServerError.NotAllowedError]
    assert errors(client) == ([] if is_created else refusals)
    found = cluster.loop.start(
        Administration(cluster.environment, cluster.domains, "").topics.stats(TOPIC, StatsOptions())
    ).result()
    assert sorted(found.subscriptions) == (["first", "worker"] if is_created else [])


def test_a_type_of_subscription_may_be_forbidden() -> None:
    cluster = Cluster(settings={"subscriptionTypesEnabled": "Exclusive, Shared"})
    client = cluster.client()
    client.subscribe(1, Failover, subscription="a")
    client.subscribe(2, Shared, subscription="b")
    (refusal,) = client.take("ERROR")
    assert refusal.error == ServerError.NotAllowedError
    assert refusal.message == f"Topic[{{{TOPIC}}}] doesn't support Failover sub type!"
    set_in_namespace(cluster, subscription_types_enabled=["Failover"])
    client.subscribe(3, Shared, subscription="c")
    client.subscribe(4, Failover, subscription="d")
    assert errors(client) == [ServerError.NotAllowedError]
    set_in_topic(cluster, subscriptionTypesEnabled=["Exclusive"])
    client.subscribe(5, Failover, subscription="e")
    client.subscribe(6, Exclusive, subscription="f")
    assert errors(client) == [ServerError.NotAllowedError]


# -- messages -------------------------------------------------------------------------------------------------------


def test_a_topic_takes_messages_of_a_maximum_size() -> None:
    cluster = Cluster()
    size = len(entry("x" * 10))
    set_in_topic(cluster, maxMessageSize=size)
    client = cluster.client()
    client.produce()
    client.send("x" * 10, "x" * 11)
    (refusal,) = client.take("SEND_ERROR")
    assert (refusal.sequence_id, refusal.error) == (1, ServerError.NotAllowedError)
    assert [sequence_id for sequence_id, _ in client.receipts()] == [0]
    chunk = entry("x" * 50, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=100, chunk_id=0)
    client.say(commands.send(producer_id=1, sequence_id=2, entry=chunk, is_chunk=True))
    assert client.take("SEND_ERROR") == [], "clients make chunks of the broker's maximum size"
    set_in_topic(cluster, maxMessageSize=0)
    client.send("x" * 11, first=3)
    assert client.take("SEND_ERROR") == []


def test_messages_must_be_encrypted_where_that_is_required() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce(1, "a")
    set_in_namespace(cluster, encryption_required=True)
    client.produce(2, "b")
    (refusal,) = client.take("ERROR")
    assert (refusal.error, refusal.message) == (ServerError.MetadataError, f"Encryption is required in {TOPIC}")
    client.produce(3, "c", encrypted=True)
    assert errors(client) == []
    encrypted = entry("secret", encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")], encryption_param=b"p")
    client.say(
        commands.send(producer_id=1, sequence_id=0, entry=entry("plain")),
        commands.send(producer_id=3, sequence_id=0, entry=encrypted),
    )
    (refusal,) = client.take("SEND_ERROR")
    assert (refusal.producer_id, refusal.message) == (1, "Messages must be encrypted")
    assert len(client.receipts()) == 1
