"""Limits of the producers, subscriptions and consumers of a topic: Pulsar's names and errors."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import AdminError, ServerError
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.sim.cluster import TOPIC, Cluster, Exclusive, Shared
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.policies import set_in_namespace, set_in_topic


def limited(**settings: Any) -> Cluster:  # noqa: ANN401 - of any kind
    return Cluster(settings=settings)


def refused(cluster: Cluster, client: Any) -> list[tuple[int, str]]:  # noqa: ANN401 - a client of the simulator
    """Return the refusals, with the limit that was counted."""
    hits = [name for name, count in cluster.environment.limit_hits.counts().items() if count]
    return [(each.error, name) for each in client.take("ERROR") for name in hits if each.message.endswith(f"({name})")]


@pytest.mark.parametrize("mode", [pb.Shared, pb.WaitForExclusive])
def test_a_topic_takes_so_many_producers(mode: int) -> None:
    cluster = limited(maxProducersPerTopic=2)
    client, other = cluster.client(), cluster.client()
    client.produce(1, "a", producer_access_mode=mode)
    client.produce(2, "b", producer_access_mode=mode)
    client.produce(3, "c", producer_access_mode=mode)
    assert refused(cluster, client) == [(ServerError.ProducerBusy, "maxProducersPerTopic")]
    client.leave()
    other.produce(1, "c")
    assert refused(cluster, other) == []


def test_a_subscription_takes_so_many_consumers() -> None:
    cluster = limited(maxConsumersPerSubscription=2)
    client = cluster.client()
    for number in (1, 2, 3):
        client.subscribe(number, Shared)
    assert refused(cluster, client) == [(ServerError.ConsumerBusy, "maxConsumersPerSubscription")]
    client.subscribe(4, Shared, subscription="other")
    assert refused(cluster, client) == []


def test_a_topic_takes_so_many_consumers() -> None:
    cluster = limited(maxConsumersPerTopic=2)
    client = cluster.client()
    for number in (1, 2, 3):
        client.subscribe(number, Shared, subscription=f"s{number}")
    assert refused(cluster, client) == [(ServerError.ConsumerBusy, "maxConsumersPerTopic")]


def test_a_reader_that_is_refused_leaves_no_subscription() -> None:
    cluster = limited(maxConsumersPerTopic=1)
    client = cluster.client()
    client.subscribe(1, Shared)
    client.subscribe(2, Exclusive, subscription="reader", durable=False)
    assert refused(cluster, client) == [(ServerError.ConsumerBusy, "maxConsumersPerTopic")]
    assert list(cluster.topic().subscriptions) == ["worker"]


def test_a_topic_takes_so_many_subscriptions() -> None:
    cluster = limited(maxSubscriptionsPerTopic=2)
    client = cluster.client()
    for number in (1, 2, 3):
        client.subscribe(number, Shared, subscription=f"s{number}")
    client.produce(1, "p", initial_subscription_name="s4")
    assert refused(cluster, client) == 2 * [(ServerError.NotAllowedError, "maxSubscriptionsPerTopic")]
    client.subscribe(4, Shared, subscription="s1")
    assert refused(cluster, client) == []
    administration = Administration(cluster.environment, cluster.domains, "")
    task = cluster.loop.start(administration.subscriptions.create(TOPIC, "s5", EARLIEST, replicated=False))
    error = task.exception()
    assert isinstance(error, AdminError)
    assert error.status == 412
    found = cluster.loop.start(administration.topics.stats(TOPIC, StatsOptions())).result()
    assert sorted(found.subscriptions) == ["s1", "s2"]


def test_policies_take_precedence_over_the_settings() -> None:
    cluster = limited(maxProducersPerTopic=9, maxConsumersPerTopic=9, maxSubscriptionsPerTopic=9)
    set_in_namespace(
        cluster,
        max_producers_per_topic=1,
        max_consumers_per_topic=2,
        max_consumers_per_subscription=1,
        max_subscriptions_per_topic=2,
    )
    client = cluster.client()
    client.produce(1, "a")
    client.produce(2, "b")
    assert refused(cluster, client) == [(ServerError.ProducerBusy, "maxProducersPerTopic")]
    client.subscribe(1, Shared)
    client.subscribe(2, Shared)
    assert refused(cluster, client) == [(ServerError.ConsumerBusy, "maxConsumersPerSubscription")]
    client.subscribe(3, Shared, subscription="other")
    client.subscribe(4, Shared, subscription="other")
    assert refused(cluster, client) == [(ServerError.ConsumerBusy, "maxConsumersPerTopic")]
    client.subscribe(5, Shared, subscription="third")
    assert refused(cluster, client) == [(ServerError.NotAllowedError, "maxSubscriptionsPerTopic")]
    set_in_topic(
        cluster,
        maxProducerPerTopic=2,
        maxConsumerPerTopic=0,
        maxConsumersPerSubscription=2,
        maxSubscriptionsPerTopic=3,
    )
    client.produce(2, "b")
    client.subscribe(2, Shared)
    client.subscribe(4, Shared, subscription="other")
    client.subscribe(5, Shared, subscription="third")
    assert refused(cluster, client) == []
    client.produce(3, "c")
    client.subscribe(6, Shared)
    client.subscribe(7, Shared, subscription="fourth")
    assert [error for error, _ in refused(cluster, client)] == [
        ServerError.ProducerBusy,
        ServerError.ConsumerBusy,
        ServerError.NotAllowedError,
    ]


@pytest.mark.parametrize("limit", ["max_unacked_messages_per_consumer", "max_unacked_messages_per_subscription"])
def test_a_higher_limit_of_unacknowledged_messages_resumes_dispatch(limit: str) -> None:
    cluster = limited()
    set_in_namespace(cluster, **{limit: 2})
    client = cluster.client()
    client.subscribe(1, Shared, permits=100)
    client.produce()
    client.send(*"abcdef")
    assert len(client.take("MESSAGE")) == 2
    set_in_namespace(cluster, **{limit: 4})
    assert len(client.take("MESSAGE")) == 2
    set_in_namespace(cluster, **{limit: 0})
    assert len(client.take("MESSAGE")) == 2
