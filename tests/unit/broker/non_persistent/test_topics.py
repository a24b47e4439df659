"""Non-persistent topics: when they exist, who may use them, and how policies apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.housekeeping.non_persistent import NonPersistentMaintenance
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, Client, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.links import LEASE_METADATA
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Coroutine

NEWS = TopicName.parse("non-persistent://public/default/news")
STORED = TopicName.parse("persistent://public/default/news-stored")
LISTED = pb.CommandGetTopicsOfNamespace


def connected(cluster: Cluster, topic: TopicName = NEWS) -> Client:
    client = cluster.client()
    client.topic = topic
    return client


def errors(client: Client) -> list[tuple[int, str]]:
    return [(each.error, each.message) for each in client.take("ERROR")]


def run(cluster: Cluster, work: Coroutine[Any, Any, None]) -> None:
    cluster.do(lambda: cluster.loop.create_task(work))


def names(client: Client, mode: pb.CommandGetTopicsOfNamespace.Mode.ValueType, pattern: str = "") -> list[str]:
    body = pb.CommandGetTopicsOfNamespace(
        request_id=client.request_id(), namespace=str(NAMESPACE), mode=mode, topics_pattern=pattern
    )
    client.say(commands.encode(body))
    (answer,) = client.take("GET_TOPICS_OF_NAMESPACE_RESPONSE")
    return list(answer.topics)


def test_lists_have_the_topics_of_the_requested_domains() -> None:
    cluster = Cluster()
    client = connected(cluster)
    client.produce()
    other = connected(cluster, STORED)
    other.produce()
    assert names(client, LISTED.PERSISTENT) == [str(STORED)]
    assert names(client, LISTED.NON_PERSISTENT) == [str(NEWS)]
    assert names(client, LISTED.ALL) == [str(NEWS), str(STORED)]
    assert names(client, LISTED.ALL, "public/default/news-.*") == [str(STORED)]
    assert names(client, LISTED.NON_PERSISTENT, "public/default/ne.s") == [str(NEWS)]
    cluster.do(lambda: cluster.domains.non_persistent.close(NEWS))
    assert names(client, LISTED.ALL) == [str(STORED)]
    assert names(client, LISTED.NON_PERSISTENT) == []


def test_limits_of_producers_subscriptions_and_consumers() -> None:
    cluster = Cluster(
        settings={"maxProducersPerTopic": 1, "maxSubscriptionsPerTopic": 2, "maxConsumersPerSubscription": 1}
    )
    client = connected(cluster)
    client.produce()
    client.produce(producer_id=2)
    assert [code for code, _ in errors(client)] == [pb.ProducerBusy]
    client.subscribe(1, subscription="a")
    client.subscribe(2, subscription="a")
    assert [code for code, _ in errors(client)] == [pb.ConsumerBusy]
    client.subscribe(3, subscription="b")
    client.subscribe(4, subscription="c")
    assert [code for code, _ in errors(client)] == [pb.NotAllowedError]
    assert list(cluster.domains.non_persistent.loaded[NEWS].subscriptions) == ["a", "b"]


def test_a_refused_subscription_leaves_nothing() -> None:
    cluster = Cluster(settings={"maxConsumersPerTopic": 1})
    client = connected(cluster)
    client.subscribe(1, subscription="a")
    client.subscribe(2, subscription="b")
    assert len(errors(client)) == 1
    assert list(cluster.domains.non_persistent.loaded[NEWS].subscriptions) == ["a"]


def test_exclusive_access_fences_and_waits() -> None:
    cluster = Cluster()
    first, second = connected(cluster), connected(cluster)
    first.produce(producer_access_mode=pb.Exclusive)
    (success,) = first.take("PRODUCER_SUCCESS")
    assert success.topic_epoch == 0
    second.produce(producer_access_mode=pb.WaitForExclusive)
    (waiting,) = second.take("PRODUCER_SUCCESS")
    assert not waiting.producer_ready
    first.leave()
    (success,) = second.take("PRODUCER_SUCCESS")
    assert (success.producer_ready, success.topic_epoch) == (True, 1)


@pytest.mark.parametrize(
    ("setting", "refused", "served"),
    [("enableNonPersistentTopics", NEWS, STORED), ("enablePersistentTopics", STORED, NEWS)],
)
def test_domains_can_be_disabled(setting: str, refused: TopicName, served: TopicName) -> None:
    cluster = Cluster(settings={setting: False})
    client = connected(cluster, refused)
    client.produce()
    client.subscribe()
    assert [code for code, _ in errors(client)] == [pb.NotAllowedError] * 2
    lookup = pb.CommandPartitionedTopicMetadata(topic=str(refused), request_id=9)
    client.say(commands.encode(lookup))
    (answer,) = client.take("PARTITIONED_METADATA_RESPONSE")
    assert answer.error == pb.NotAllowedError
    other = connected(cluster, served)
    other.produce()
    assert other.take("PRODUCER_SUCCESS")


def test_links_are_refused_with_the_reason() -> None:
    cluster = Cluster(targets=("jfk",))
    client = connected(cluster)
    client.produce(name="pulsar.repl.jfk-->ewr")
    client.subscribe(subscription="pulsar.repl.jfk", metadata=[pb.KeyValue(key=LEASE_METADATA, value="1")])
    refusals = errors(client)
    assert [code for code, _ in refusals] == [pb.NotAllowedError] * 2
    assert {text for _, text in refusals} == {f"Non-persistent topics are not replicated: {NEWS}"}
    client.subscribe(subscription="pulsar.repl.jfk")
    assert [code for code, _ in errors(client)] == [pb.ProducerBusy]


def test_compacted_reads_are_refused() -> None:
    client = connected(Cluster())
    client.subscribe(read_compacted=True, durable=False)
    assert errors(client) == [(pb.NotAllowedError, "readCompacted only valid on persistent topics")]


def test_a_missing_topic_may_be_created_only_if_that_is_allowed() -> None:
    cluster = Cluster(settings={"allowAutoTopicCreation": False})
    client = connected(cluster)
    client.produce()
    client.subscribe()
    assert [code for code, _ in errors(client)] == [pb.TopicNotFound] * 2
    cluster.do(lambda: cluster.domains.non_persistent.create(NEWS))
    client.produce()
    assert client.take("PRODUCER_SUCCESS")


def test_auto_creation_makes_partitions() -> None:
    cluster = Cluster(settings={"allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": 3})
    client = connected(cluster)
    for create, answers in ((False, pb.CommandPartitionedTopicMetadataResponse.Failed), (True, 0), (False, 0)):
        client.say(
            commands.encode(
                pb.CommandPartitionedTopicMetadata(topic=str(NEWS), request_id=1, metadata_auto_creation_enabled=create)
            )
        )
        (answer,) = client.take("PARTITIONED_METADATA_RESPONSE")
        assert answer.response == answers
    assert answer.partitions == 3
    client.topic = NEWS.partition(2)
    client.produce()
    assert client.take("PRODUCER_SUCCESS")
    client.topic = NEWS.partition(1)
    client.subscribe(force_topic_creation=False)
    assert errors(client) == []


def test_unused_topics_are_forgotten_after_a_while() -> None:
    cluster = Cluster(settings={"brokerUnloadInactiveTopicsMaxInactiveDurationSeconds": 100})
    topics = cluster.domains.non_persistent
    maintenance = NonPersistentMaintenance(cluster.environment, topics)
    client = connected(cluster)
    client.produce()
    for _ in range(3):
        run(cluster, maintenance.remove_unused())
        cluster.loop.advance(100)
    assert NEWS in topics.loaded
    client.leave()
    run(cluster, maintenance.remove_unused())
    cluster.loop.advance(99)
    run(cluster, maintenance.remove_unused())
    assert NEWS in topics.loaded
    cluster.loop.advance(2)
    run(cluster, maintenance.remove_unused())
    assert NEWS not in topics.loaded
    assert topics.names.names_in_memory(NAMESPACE).texts == ()


@pytest.mark.parametrize(
    ("targets", "is_deleted", "is_kept"), [((), False, True), ((), True, False), (("jfk",), True, True)]
)
def test_policies_of_an_unused_topic_stay_unless_its_deletion_is_requested(
    targets: tuple[str, ...], *, is_deleted: bool, is_kept: bool
) -> None:
    cluster = Cluster(
        targets=targets,
        settings={
            "brokerUnloadInactiveTopicsMaxInactiveDurationSeconds": 100,
            "brokerDeleteInactiveTopicsEnabled": is_deleted,
        },
    )
    maintenance = NonPersistentMaintenance(cluster.environment, cluster.domains.non_persistent)
    policies = cluster.resources.topic_policies
    cluster.do(lambda: policies.change(NEWS, maxProducerPerTopic=3))
    client = connected(cluster)
    client.produce()
    client.leave()
    run(cluster, maintenance.remove_unused())
    cluster.loop.advance(101)
    run(cluster, maintenance.remove_unused())
    assert NEWS not in cluster.domains.non_persistent.loaded
    assert policies.exists(NEWS) is is_kept


def test_rates_and_dropped_messages_are_measured() -> None:
    cluster = Cluster()
    client, reader = connected(cluster), connected(cluster)
    client.produce()
    reader.subscribe(permits=2)
    topic = cluster.domains.non_persistent.loaded[NEWS]
    maintenance = NonPersistentMaintenance(cluster.environment, cluster.domains.non_persistent)
    run(cluster, maintenance.measure())
    client.send(*"abcdef")
    cluster.loop.advance(2)
    run(cluster, maintenance.measure())
    assert topic.arrivals.rates.per_second[0] == 3
    assert topic.subscriptions["worker"].rates.per_second[0] == 1
    assert topic.subscriptions["worker"].rates.per_second[4] == 2


def test_policies_apply_to_topics_in_use() -> None:
    cluster = Cluster()
    client = connected(cluster)
    client.produce()
    topic = cluster.domains.non_persistent.loaded[NEWS]
    changed = Policies(replication_clusters=[cluster.name], encryption_required=True)
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: changed))
    assert topic.policies.encryption_required
    client.send("a")
    assert [each.error for each in client.take("SEND_ERROR")] == [pb.MetadataError]
    moved = Policies(replication_clusters=["jfk"])
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: moved))
    assert len(client.take("CLOSE_PRODUCER")) == 1
    client.produce(producer_id=2)
    assert [code for code, _ in errors(client)] == [pb.MetadataError]


def test_a_topic_of_a_missing_namespace_is_refused() -> None:
    cluster = Cluster()
    client = connected(cluster, TopicName.parse("non-persistent://public/none/t"))
    client.produce()
    assert [code for code, _ in errors(client)] == [pb.TopicNotFound]
    assert names_of(cluster, "public/none") == ()


def names_of(cluster: Cluster, namespace: str) -> tuple[str, ...]:
    return cluster.domains.non_persistent.names.names_in_memory(NamespaceName.parse(namespace)).texts


def test_a_closed_producer_gets_the_receipts_of_its_earlier_messages_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client, reader = connected(cluster), connected(cluster)
    client.produce()
    reader.subscribe()
    client.heard.clear()
    monkeypatch.setattr(cluster.environment.turns, "is_over", lambda: True)
    client.say(
        commands.send(producer_id=1, sequence_id=0, entry=entry("a")),
        commands.encode(pb.CommandCloseProducer(producer_id=1, request_id=50)),
    )
    assert client.names() == ["SEND_RECEIPT", "SUCCESS"]
