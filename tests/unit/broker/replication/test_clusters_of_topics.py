"""A topic may be replicated to other clusters than its namespace."""

from __future__ import annotations

from magnetar.base.names import TopicName
from magnetar.broker.replication.protection import protection_of
from magnetar.sim.cluster import TOPIC, Cluster
from tests.unit.broker.mesh import Mesh
from tests.unit.broker.policies import set_in_namespace, set_in_topic


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


def test_a_topic_is_replicated_although_its_namespace_is_not() -> None:
    mesh = Mesh("ewr", "jfk", settings={})
    for name, cluster in mesh.clusters.items():
        set_in_namespace(cluster, replication_clusters=[name])
    mesh.subscribe("ewr")
    mesh.publish("ewr", "a")
    mesh.carry()
    assert mesh.entries("jfk") == 0
    assert list(mesh.clusters["ewr"].topic().replicators) == []
    for cluster in mesh.clusters.values():
        set_in_topic(cluster, replicationClusters=["ewr", "jfk"])
    mesh.publish("ewr", "b")
    mesh.pipes["ewr", "jfk"].attach(permits=100)
    mesh.carry()
    assert sorted(mesh.texts("jfk").values()) == ["a", "b"]
    assert sorted(protection_of(mesh.clusters["ewr"].topic())["worker"].peers) == ["jfk"]


def test_a_topic_with_clusters_of_its_own_is_loaded_without_clients() -> None:
    cluster = Cluster()
    other = TopicName("persistent", TOPIC.tenant, TOPIC.namespace, "other")
    for name in (TOPIC, other):
        client = cluster.client()
        client.topic = name
        client.produce()
        client.leave()
    for name in list(cluster.topics.loaded):
        cluster.topics.unload(name)
    cluster.settle()
    assert not cluster.topics.loaded
    set_in_topic(cluster, replicationClusters=["ewr", "jfk"])
    assert list(cluster.topics.loaded) == [TOPIC]
    cluster.crash()
    cluster.do(lambda: cluster.loop.create_task(cluster.topics.linked.load_all()))
    assert list(cluster.topics.loaded) == [TOPIC]
    assert list(cluster.topic().replicators) == ["jfk"]
