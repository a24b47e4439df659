"""A topic may be replicated to fewer clusters than its namespace."""

from __future__ import annotations

from magnetar.broker.replication.protection import protection_of
from tests.unit.broker.mesh import Mesh
from tests.unit.broker.policies import set_in_topic


def test_a_topic_is_replicated_to_the_clusters_of_its_policy() -> None:
    mesh = Mesh("ewr", "jfk", "sfo", settings={})
    mesh.subscribe("ewr")
    set_in_topic(mesh.clusters["ewr"], replicationClusters=["ewr", "sfo"])
    topic = mesh.clusters["ewr"].topic()
    assert list(topic.replicators) == ["sfo"]
    mesh.publish("ewr", "a", "b")
    mesh.carry()
    assert (mesh.entries("jfk"), mesh.entries("sfo")) == (0, 2)
    clusters = protection_of(topic)["worker"].peers
    assert sorted(clusters) == ["sfo"], "subscriptions follow the same clusters"


def test_a_cluster_that_is_added_again_gets_everything() -> None:
    mesh = Mesh("ewr", "jfk", settings={})
    mesh.publish("ewr", "a")
    mesh.carry()
    set_in_topic(mesh.clusters["ewr"], replicationClusters=["ewr"])
    mesh.publish("ewr", "b")
    mesh.carry()
    assert mesh.entries("jfk") == 1
    set_in_topic(mesh.clusters["ewr"], replicationClusters=None)
    mesh.pipes["ewr", "jfk"].attach(permits=100)
    mesh.carry()
    assert sorted(mesh.texts("jfk").values()) == ["a", "b"]
