"""CLOSE_PRODUCER and CLOSE_CONSUMER before the response to their creation, and connections that end meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ServerError
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable


def produce(client: Client) -> None:
    """Request a producer with a name."""
    client.produce(name="app", user_provided_producer_name=True)


def recovering() -> Cluster:
    """Return a cluster whose topic must read its log before it accepts producers, with a stopped disk."""
    cluster = Cluster(settings={"brokerDeduplicationEnabled": True})
    client = cluster.client()
    client.produce(name="app")
    client.send("a", "b")
    cluster.crash()
    cluster.prompt = False
    return cluster


def unloading() -> Cluster:
    """Return a cluster whose topic is being unloaded, with a stopped disk."""
    cluster = Cluster()
    cluster.topic()
    cluster.prompt = False
    cluster.loop.call_soon(cluster.topics.unload, TOPIC)
    cluster.loop.spin()
    return cluster


def proceed(cluster: Cluster) -> None:
    cluster.prompt = True
    cluster.settle()


def close_producer(client: Client, request_id: int) -> None:
    client.say(commands.encode(pb.CommandCloseProducer(producer_id=1, request_id=request_id)))


def close_consumer(client: Client, request_id: int) -> None:
    client.say(commands.encode(pb.CommandCloseConsumer(consumer_id=1, request_id=request_id)))


@pytest.mark.parametrize("waiting", [recovering, unloading])
def test_a_producer_that_was_closed_while_it_was_created_is_not_let_in(waiting: Callable[[], Cluster]) -> None:
    cluster = waiting()
    client = cluster.client()
    produce(client)
    assert client.names() == []
    close_producer(client, 77)
    assert [each.request_id for each in client.take("SUCCESS")] == [77]
    proceed(cluster)
    assert client.names() == []
    assert not cluster.topic().producers
    other = cluster.client()
    produce(other)
    assert other.names() == ["PRODUCER_SUCCESS"]


@pytest.mark.parametrize("waiting", [recovering, unloading])
def test_a_producer_whose_connection_ends_while_it_is_created_is_not_let_in(waiting: Callable[[], Cluster]) -> None:
    cluster = waiting()
    client = cluster.client()
    produce(client)
    client.leave()
    proceed(cluster)
    assert not cluster.topic().producers


@pytest.mark.parametrize("waiting", [recovering, unloading])
def test_the_same_id_may_be_used_again_after_an_early_close(waiting: Callable[[], Cluster]) -> None:
    cluster = waiting()
    client = cluster.client()
    produce(client)
    close_producer(client, 77)
    produce(client)
    client.names()
    proceed(cluster)
    assert [each.request_id for each in client.take("PRODUCER_SUCCESS")] == [2], "the first request has no answer"
    assert len(cluster.topic().producers) == 1
    close_producer(client, 78)
    cluster.settle()
    assert not cluster.topic().producers


def test_a_second_producer_of_the_same_id_has_to_wait_for_the_first() -> None:
    cluster = recovering()
    client = cluster.client()
    produce(client)
    produce(client)
    assert [each.error for each in client.take("ERROR")] == [ServerError.ServiceNotReady]
    proceed(cluster)
    assert [each.request_id for each in client.take("PRODUCER_SUCCESS")] == [1]


def test_a_producer_that_waits_for_a_dead_owner_and_is_closed_is_not_let_in() -> None:
    cluster = Cluster()
    owner, client = cluster.client(), cluster.client()
    produce(owner)
    produce(client)
    close_producer(client, 77)
    client.names()
    cluster.loop.advance(60)
    assert owner.disconnected
    assert client.names() == []
    assert not cluster.topic().producers


def test_the_name_of_a_closed_connection_is_free_even_if_its_producer_was_left_behind() -> None:
    cluster = Cluster()
    owner = cluster.client()
    produce(owner)
    producer = cluster.topic().producers["app"]
    owner.leave()
    cluster.topic().producers._enter(producer)
    client = cluster.client()
    produce(client)
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_a_consumer_that_was_closed_while_it_was_created_and_came_again_is_there_once() -> None:
    cluster = unloading()
    client = cluster.client()
    client.subscribe(permits=0)
    close_consumer(client, 77)
    client.subscribe(permits=0)
    client.names()
    proceed(cluster)
    assert [each.request_id for each in client.take("SUCCESS")] == [2], "the first request has no answer"
    assert len(cluster.subscription().consumers) == 1
    close_consumer(client, 78)
    cluster.settle()
    assert not cluster.subscription().consumers


def test_a_consumer_that_waits_for_a_dead_rival_and_is_closed_is_not_let_in() -> None:
    cluster = Cluster()
    rival, client = cluster.client(), cluster.client()
    rival.subscribe(kind=Exclusive)
    client.subscribe(kind=Exclusive, permits=0)
    close_consumer(client, 77)
    client.names()
    cluster.loop.advance(60)
    assert rival.disconnected
    assert client.names() == []
    assert not cluster.subscription().consumers


def test_a_consumer_whose_connection_ends_while_it_is_created_is_not_let_in() -> None:
    cluster = unloading()
    client = cluster.client()
    client.subscribe(permits=0)
    client.leave()
    proceed(cluster)
    assert "worker" not in cluster.topic().subscriptions


def test_receipts_of_a_closed_producer_are_not_sent_to_the_next_one_with_its_id() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    cluster.prompt = False
    client.send("a", "b", first=7)
    client.session.close_producer(client.session.producers[1])
    client.produce()
    client.take("SEND_RECEIPT")
    proceed(cluster)
    assert client.receipts() == []
    client.send("c", first=7)
    assert [sequence_id for sequence_id, _ in client.receipts()] == [7]
