"""Skipping, clearing and expiring acknowledge entries of one cluster, and other clusters follow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, Cluster
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from collections.abc import Callable


def skip(cluster: Cluster) -> None:
    subscription = cluster.subscription()
    cluster.do(partial(cluster.loop.create_task, subscription.skip(2)))
    cluster.do(subscription.flushes.now)


def clear(cluster: Cluster) -> None:
    subscription = cluster.subscription()
    last = subscription.topic.ledger.last_confirmed_entry
    cluster.do(partial(subscription.acknowledge_through, last))
    cluster.do(subscription.flushes.now)


def live_too_long(cluster: Cluster) -> None:
    limited = Policies(replication_clusters=[cluster.name, *cluster.targets], message_ttl_in_seconds=60)
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: limited))
    cluster.loop.advance(61)
    cluster.loop.start(Maintenance(cluster.environment, cluster.topics).expire())


SKIPS: list[tuple[Callable[[Cluster], None], list[str]]] = [
    (skip, ["c", "not in ewr"]),
    (clear, ["not in ewr"]),
    (live_too_long, ["not in ewr"]),
]


@pytest.mark.parametrize(("do", "left"), SKIPS)
def test_it_travels_and_leaves_what_the_cluster_did_not_have(do: Callable[[Cluster], None], left: list[str]) -> None:
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", "a", "b", "c")
    Worker(network, "ewr").leave()
    network.carry()
    network.progress()
    network.publish("jfk", "not in ewr")
    do(network["ewr"])
    network.progress()
    assert Worker(network, "jfk").read() == left


@pytest.mark.parametrize("do", [skip, clear, live_too_long])
def test_it_is_not_undone_by_what_others_say_late(do: Callable[[Cluster], None]) -> None:
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", "a", "b", "c")
    Worker(network, "ewr").leave()
    network.carry()
    network.progress()
    network.cut("ewr", "jfk")
    do(network["ewr"])
    there = Worker(network, "jfk")
    there.read()
    there.ack("c")
    network.heal("ewr", "jfk")
    network.full_states()
    for name in network.clusters:
        assert network[name].subscription().backlog == 0, name
