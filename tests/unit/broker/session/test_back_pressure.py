"""A session pauses reading its socket before publishes in flight exceed their memory, and resumes afterwards."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ServerError
from magnetar.sim.cluster import Client, Cluster, Exclusive

MIB = 1 << 20
LARGE = "x" * MIB


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with 12 MiB for publishes in flight, except large frames; commits are manual."""
    return Cluster(prompt=False, settings={"maxMessagePublishBufferSizeInMB": 24})


def publisher(cluster: Cluster, name: str) -> Client:
    client = cluster.client()
    client.produce(name=name)
    return client


def publish_until_held_back(client: Client) -> int:
    """Publish entries of 1 MiB while the session reads; return their number."""
    count = 0
    while client.reading:
        client.send(LARGE, first=count)
        count += 1
    return count


def test_a_session_is_not_read_while_its_publishes_take_half_of_the_memory(cluster: Cluster) -> None:
    client = publisher(cluster, "flood")
    count = publish_until_held_back(client)
    assert count == 6
    cluster.commit(2)
    assert not client.reading
    cluster.commit(1)
    assert client.reading
    cluster.commit()
    assert len(client.receipts()) == count


def test_publishes_of_one_session_hold_others_back_only_in_part(cluster: Cluster) -> None:
    floods = [publisher(cluster, f"flood-{number}") for number in range(10)]
    counts = [publish_until_held_back(each) for each in floods]
    assert sum(counts) <= 12 + len(floods)
    small = publisher(cluster, "small")
    consumer = cluster.client()
    consumer.subscribe()
    for number in range(20):
        small.send("a small one", first=number)
        consumer.ack()
    assert small.reading
    assert consumer.reading
    cluster.commit()
    assert all(each.reading for each in floods)
    assert len(small.receipts()) == 20


def test_publishes_that_fail_give_their_memory_back(cluster: Cluster) -> None:
    client = publisher(cluster, "flood")
    publish_until_held_back(client)
    cluster.fail()
    assert client.reading
    assert cluster.environment.memory.publishes_in_flight == 0


def test_publishes_of_a_session_that_is_gone_count_until_they_are_durable(cluster: Cluster) -> None:
    client = publisher(cluster, "flood")
    count = publish_until_held_back(client)
    client.leave()
    assert cluster.environment.memory.publishes_in_flight >= count * MIB
    cluster.commit()
    assert cluster.environment.memory.publishes_in_flight == 0


@pytest.mark.parametrize("deduplicated", [False, True])
def test_duplicates_and_all_other_publishes_are_counted_out(deduplicated: bool) -> None:
    settings = {"maxMessagePublishBufferSizeInMB": 24, "brokerDeduplicationEnabled": deduplicated}
    cluster = Cluster(prompt=True, settings=settings)
    client = publisher(cluster, "client")
    for _ in range(3):
        client.send("one", "two", "three")
    assert len(client.receipts()) == 9
    assert cluster.environment.memory.publishes_in_flight == 0


def test_a_hit_of_the_limit_is_counted_once_until_reading_goes_on(cluster: Cluster) -> None:
    client = publisher(cluster, "flood")
    publish_until_held_back(client)
    client.send(LARGE, first=100)
    hits = cluster.environment.limit_hits.counts()
    assert hits["maxMessagePublishBufferSizeInMB"] == 1
    assert hits["maxPendingPublishRequestsPerConnection"] == 0


@pytest.mark.parametrize("is_read_again", [False, True])
def test_a_session_that_is_not_read_is_not_taken_for_dead(cluster: Cluster, *, is_read_again: bool) -> None:
    cluster.prompt = True
    client, other = publisher(cluster, "flood"), cluster.client()
    client.subscribe(kind=Exclusive)
    cluster.prompt = False
    publish_until_held_back(client)
    other.subscribe(2, kind=Exclusive)
    if is_read_again:
        cluster.commit()
    assert client.reading == is_read_again
    assert client.probes == 1
    cluster.loop.advance(6)
    assert not client.disconnected
    assert [error.error for error in other.take("ERROR")] == [ServerError.ConsumerBusy]
    cluster.commit()
    cluster.loop.advance(1)
    other.subscribe(3, kind=Exclusive)
    cluster.loop.advance(6)
    assert client.disconnected, "it is read, and does not answer"
