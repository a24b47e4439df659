"""Partitioned topics across clusters: added partitions are created in the other clusters, with all subscriptions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.sim.pipe import Pipe
from tests.unit.broker.network import ClusterNetwork

if TYPE_CHECKING:
    from magnetar.broker.subscription.subscription import Subscription


def partitioned(**settings: object) -> ClusterNetwork:
    """Return two clusters with a topic of two partitions and a replicated subscription in the first."""
    network = ClusterNetwork("ewr", "jfk", settings=settings)
    for cluster in network.clusters.values():
        cluster.do(partial(cluster.partition, TOPIC, 2))
    for index in range(2):
        subscribe(network["ewr"], index)
    network.progress(1)
    return network


def at(cluster: Cluster, index: int) -> Client:
    client = cluster.client()
    client.topic = TOPIC.partition(index)
    return client


def subscribe(cluster: Cluster, index: int) -> list[str]:
    client = at(cluster, index)
    client.subscribe(replicate_subscription_state=True)
    texts = client.messages()
    client.leave()
    return texts


def publish_and_carry(network: ClusterNetwork, index: int, text: str) -> None:
    client = at(network["ewr"], index)
    client.produce()
    client.send(text)
    pipe = Pipe(network["ewr"], network["jfk"], topic=TOPIC.partition(index))
    pipe.attach()
    pipe.run()


def worker(cluster: Cluster, index: int) -> Subscription:
    return cluster.topic(TOPIC.partition(index)).subscriptions["worker"]


def test_every_partition_has_its_own_state() -> None:
    network = partitioned()
    for index in range(2):
        publish_and_carry(network, index, f"of {index}")
    client = at(network["ewr"], 1)
    client.subscribe()
    client.ack(network["ewr"].topic(TOPIC.partition(1)).ledger.last_confirmed_entry)
    network.progress()
    assert [subscribe(network["jfk"], index) for index in range(2)] == [["of 0"], []]


def test_partitions_added_in_one_cluster_come_with_what_links_bring_of_them() -> None:
    network = partitioned()
    network["ewr"].do(lambda: network["ewr"].partition(TOPIC, 4))
    assert all(worker(network["ewr"], index).is_replicated for index in range(4)), "as partition 0 is"
    network.progress(6)
    assert network["jfk"].topics.partitions_of(TOPIC) == 4, "progress links are links, too"
    publish_and_carry(network, 3, "new")
    assert subscribe(network["jfk"], 3) == ["new"]
    assert network["ewr"].loop.problems == []


def test_a_cluster_that_has_nothing_of_the_topic_makes_it_with_its_partitions() -> None:
    network = ClusterNetwork("ewr", "jfk")
    network["ewr"].do(lambda: network["ewr"].partition(TOPIC, 3))
    for index in (1, 0, 2):
        publish_and_carry(network, index, f"of {index}")
        assert network["jfk"].topics.partitions_of(TOPIC) == max(index + 1, 2)
    assert [subscribe(network["jfk"], index) for index in range(3)] == [["of 0"], ["of 1"], ["of 2"]]


def test_clients_add_none_by_asking_for_one() -> None:
    network = partitioned()
    at(network["jfk"], 7).produce()
    assert network["jfk"].topics.partitions_of(TOPIC) == 2


def test_a_link_adds_no_more_than_are_allowed() -> None:
    network = partitioned(maxNumPartitionsPerPartitionedTopic=2)
    client = at(network["jfk"], 2)
    client.produce(name="pulsar.repl.ewr-->jfk")
    (error,) = client.take("ERROR")
    assert "may have 2 partitions here" in error.message
    assert network["jfk"].topics.partitions_of(TOPIC) == 2


def test_added_partitions_inherit_a_disabled_replication_from_the_first_one() -> None:
    network = partitioned()
    first = network["jfk"].topic(TOPIC.partition(0))
    network["jfk"].do(partial(first.set_replicated, worker(network["jfk"], 0), replicated=False))
    for cluster in network.clusters.values():
        cluster.do(partial(cluster.partition, TOPIC, 3))
    network.full_states()
    assert [worker(network[name], 2).is_replicated for name in ("ewr", "jfk")] == [True, False]
