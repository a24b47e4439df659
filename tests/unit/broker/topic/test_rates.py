"""Rates of publishing, dispatch and subscribing, set by policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.housekeeping.maintenance import measuring
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.metadata.policy.values import DispatchRate, PublishRate, SubscribeRate, SubscriptionPolicies
from magnetar.sim.cluster import Cluster, Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands
from tests.unit.broker.mesh import Mesh
from tests.unit.broker.policies import set_in_namespace, set_in_topic

if TYPE_CHECKING:
    from magnetar.sim.cluster import Client
    from magnetar.wire.proto import pulsar_api_pb2 as pb

HERE = "ewr"


def dispatch_rate(messages: int = 0, size: int = 0, **fields: bool | int) -> DispatchRate:
    return DispatchRate(dispatchThrottlingRateInMsg=messages, dispatchThrottlingRateInByte=size, **fields)


def publish_rate(messages: int = 0, size: int = 0) -> PublishRate:
    return PublishRate(publishThrottlingRateInMsg=messages, publishThrottlingRateInByte=size)


def advance(cluster: Cluster, seconds: float) -> None:
    cluster.loop.advance(seconds)
    cluster.settle()


def sending(count: int, num_messages_in_batch: int = 1) -> tuple[Cluster, Client]:
    """Return a cluster with ``count`` entries."""
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.say(
        *(
            commands.send(
                producer_id=1,
                sequence_id=number,
                num_messages=num_messages_in_batch,
                entry=entry(f"{number:03}", num_messages_in_batch=num_messages_in_batch),
            )
            for number in range(count)
        )
    )
    return cluster, client


# -- publishing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [publish_rate(messages=10), publish_rate(size=10 * len(entry("000")))])
def test_a_connection_that_publishes_too_fast_is_not_read_for_a_while(rate: PublishRate) -> None:
    cluster = Cluster()
    set_in_namespace(cluster, publishMaxMessageRate={HERE: rate})
    client = cluster.client()
    client.produce()
    client.send(*map(str, range(100, 105)))
    assert client.reading
    client.send(*map(str, range(105, 130)), first=5)
    assert len(client.receipts()) == 30, "what has arrived is stored: nothing is lost or refused"
    assert not client.reading
    advance(cluster, 1.9)
    assert not client.reading
    advance(cluster, 0.3)
    assert client.reading
    assert cluster.topic().rates.publish_limited == 1


def test_tenants_share_the_rate_of_the_broker() -> None:
    cluster = Cluster(settings={"brokerPublisherThrottlingMaxMessageRate": 10})
    cluster.do(lambda: cluster.resources.tenants.create("other", TenantInfo()))
    namespace = NamespaceName("other", "namespace")
    cluster.do(lambda: cluster.resources.namespaces.create(namespace, Policies(replication_clusters=[HERE])))
    greedy, small = cluster.client(), cluster.client()
    greedy.produce()
    small.topic = TopicName.parse("persistent://other/namespace/t")
    small.produce()
    greedy.send(*map(str, range(100, 200)))
    assert len(greedy.receipts()) == 100, "what has arrived is stored"
    assert not greedy.reading
    small.send("100")
    advance(cluster, 0.3)
    assert small.reading
    assert not greedy.reading
    small.send(*map(str, range(101, 105)), first=1)
    assert not small.reading
    advance(cluster, 1.0)
    assert small.reading, "it gets half of the rate"
    assert not greedy.reading
    advance(cluster, 10.0)
    assert greedy.reading
    assert cluster.environment.limit_hits.counts()[Limit.PUBLISHED_MESSAGES.value] == 3
    assert cluster.environment.limit_hits.counts()[Limit.PUBLISHED_BYTES.value] == 0


def test_the_rates_of_other_clusters_do_not_count() -> None:
    cluster = Cluster()
    set_in_namespace(cluster, publishMaxMessageRate={"elsewhere": publish_rate(messages=1)})
    client = cluster.client()
    client.produce()
    client.send("a", "b", "c")
    assert client.reading


def test_a_connection_is_read_again_soon_after_the_rate_is_raised() -> None:
    cluster = Cluster()
    set_in_topic(cluster, publishRate=publish_rate(messages=1))
    client = cluster.client()
    client.produce()
    client.send(*"abcdefghijklmnopqrst")
    advance(cluster, 2)
    assert not client.reading
    set_in_topic(cluster, publishRate=None)
    advance(cluster, 1)
    assert client.reading
    client.send("u", first=20)
    assert len(client.receipts()) == 21


def test_a_closed_connection_waits_for_no_rate() -> None:
    cluster = Cluster()
    set_in_topic(cluster, publishRate=publish_rate(messages=1))
    client = cluster.client()
    client.produce()
    client.send(*"abc")
    client.leave()
    advance(cluster, 5)
    assert not client.reading


# -- dispatch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Exclusive, Failover, Shared, Key_Shared])
@pytest.mark.parametrize("field", ["topicDispatchRate", "subscriptionDispatchRate"])
def test_a_backlog_is_sent_at_the_rate(kind: pb.CommandSubscribe.SubType.ValueType, field: str) -> None:
    cluster, _ = sending(100)
    set_in_namespace(cluster, **{field: {HERE: dispatch_rate(10)}})
    consumer = cluster.client()
    consumer.subscribe(kind=kind)
    received = consumer.messages()
    assert len(received) == 10
    for _ in range(30):
        advance(cluster, 0.1)
    received += consumer.messages()
    assert 38 <= len(received) <= 40
    assert received == sorted(received)
    set_in_namespace(cluster, **{field: {}})
    received += consumer.messages()
    assert received == [f"{number:03}" for number in range(100)]


@pytest.mark.parametrize("kind", [Exclusive, Shared, Key_Shared])
def test_a_rate_in_bytes(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster, _ = sending(100)
    set_in_namespace(cluster, subscriptionDispatchRate={HERE: dispatch_rate(size=10 * len(entry("000")))})
    consumer = cluster.client()
    consumer.subscribe(kind=kind)
    for _ in range(40):
        advance(cluster, 0.1)
    assert 40 <= len(consumer.messages()) <= 51


@pytest.mark.parametrize("kind", [Exclusive, Shared, Key_Shared])
def test_messages_of_batches_count(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster, _ = sending(40, num_messages_in_batch=5)
    set_in_topic(cluster, subscriptionDispatchRate=dispatch_rate(10))
    consumer = cluster.client()
    consumer.subscribe(kind=kind)
    assert len(consumer.messages()) == 2
    for _ in range(50):
        advance(cluster, 0.1)
    assert 8 <= len(consumer.messages()) <= 11


def test_the_subscriptions_of_a_topic_share_its_rate() -> None:
    cluster, _ = sending(100)
    set_in_topic(cluster, dispatchRate=dispatch_rate(10, ratePeriodInSecond=5))
    consumer = cluster.client()
    for number in (1, 2):
        consumer.subscribe(number, Shared, subscription=f"s{number}")
    for _ in range(100):
        advance(cluster, 0.1)
    assert 28 <= len(consumer.messages()) <= 31


def test_a_rate_relative_to_publishing_grows_with_it() -> None:
    cluster, client = sending(100)
    set_in_topic(cluster, subscriptionDispatchRate=dispatch_rate(1, relativeToPublishRate=True))
    topic = cluster.topic()
    for number in range(2):
        cluster.do(lambda: list(measuring(topic, cluster.clock.monotonic())))
        client.send(*(str(each) for each in range(10)), first=100 + 10 * number)
        advance(cluster, 1)
    cluster.do(lambda: list(measuring(topic, cluster.clock.monotonic())))
    assert topic.rates.of_subscription.messages == pytest.approx(11)


def test_a_subscription_may_have_its_own_rate() -> None:
    cluster, _ = sending(100)
    own = {"slow": SubscriptionPolicies(dispatchRate=dispatch_rate(5))}
    set_in_topic(cluster, subscriptionDispatchRate=dispatch_rate(20), subscriptionPolicies=own)
    slow, fast = cluster.client(), cluster.client()
    slow.subscribe(subscription="slow")
    fast.subscribe(subscription="fast")
    assert (len(slow.messages()), len(fast.messages())) == (5, 20)
    set_in_topic(cluster, subscriptionPolicies=None)
    for _ in range(10):
        advance(cluster, 0.1)
    assert 19 <= len(slow.messages()) <= 20


def test_a_subscription_that_is_deleted_waits_for_no_rate() -> None:
    cluster, _ = sending(10)
    set_in_topic(cluster, subscriptionDispatchRate=dispatch_rate(1))
    consumer = cluster.client()
    consumer.subscribe()
    topic, subscription = cluster.topic(), cluster.subscription()
    cluster.do(lambda: topic.delete_subscription(subscription, lambda _: None))
    advance(cluster, 10)
    assert len(consumer.messages()) == 1
    assert cluster.loop.problems == []


def test_a_link_sends_at_its_rate() -> None:
    mesh = Mesh("ewr", "jfk", settings={"dispatchThrottlingRatePerReplicatorInMsg": 5})
    mesh.publish("ewr", *(f"{number:02}" for number in range(20)))
    mesh.carry()
    arrived = [mesh.entries("jfk")]
    for _ in range(4):
        mesh.second()
        arrived.append(mesh.entries("jfk"))
    assert arrived[0] == 5
    assert 14 <= arrived[2] <= 16
    assert arrived[-1] == 20


# -- subscribing ----------------------------------------------------------------------------------------------------


def test_a_consumer_that_subscribes_too_often_is_refused() -> None:
    cluster = Cluster()
    rate = SubscribeRate(subscribeThrottlingRatePerConsumer=2, ratePeriodInSecond=10)
    set_in_namespace(cluster, clusterSubscribeRate={HERE: rate})
    client = cluster.client()
    for _ in range(3):
        client.subscribe(1)
        client.say(commands.close_consumer(consumer_id=1, request_id=client.request_id()))
    (refusal,) = client.take("ERROR")[:1]
    assert refusal.error == ServerError.NotAllowedError
    assert refusal.message == "Subscribe limited by subscribe rate limit per consumer."
    client.subscribe(2)
    assert client.take("ERROR")[1:] == [], "each consumer has its own rate"
    advance(cluster, 5)
    client.heard.clear()
    client.subscribe(1)
    assert "ERROR" not in client.names()
