"""A cluster that a tenant does not allow holds none of its namespaces, and deletes them nowhere."""

from __future__ import annotations

from operator import methodcaller
from random import Random
from typing import Any

import pytest

from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.loop.slices import at_once
from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Delete
from magnetar.metasync.local.allowed import AllowedClusters
from magnetar.metasync.local.scope import local_changes
from tests.kit.seeds import seeds
from tests.unit.metasync.test_different_rules import change, exchange, excluding, restart, ttl
from tests.unit.metasync.test_store import ORDERS, RULES, TOPIC, Cluster, edit

ALL = ["ewr", "jfk", "lga"]


def settle(*clusters: Cluster) -> list[list[str]]:
    return [at_once(AllowedClusters(cluster.store.holdings).settle()) for cluster in clusters]


def allow(cluster: Cluster, *names: str) -> None:
    cluster.now_s += 1
    cluster.resources.tenants.update("acme", methodcaller("model_copy", update={"allowedClusters": sorted(names)}))


def allowed(cluster: Cluster) -> list[str]:
    found = cluster.resources.tenants.get("acme")
    assert found is not None
    return found.allowedClusters


@pytest.fixture
def clusters() -> tuple[Cluster, Cluster]:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo(allowedClusters=ALL))
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=2))
    ewr.resources.topic_policies.change(TOPIC, maxMessageSize=7)
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()
    return ewr, jfk


def test_the_namespaces_are_dropped_and_come_back_without_a_deletion_elsewhere(
    clusters: tuple[Cluster, Cluster],
) -> None:
    ewr, jfk = clusters
    everything = ewr.documents()
    allow(ewr, "ewr", "lga")
    exchange(ewr, jfk)
    assert settle(ewr, jfk) == [[], []]
    assert list(jfk.documents()) == ["/admin/policies/acme"]
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    restart(jfk, RULES)
    exchange(ewr, jfk)
    assert jfk.events() == []
    assert list(jfk.documents()) == ["/admin/policies/acme"]
    assert set(ewr.documents()) == set(everything)
    allow(ewr, *ALL)
    exchange(ewr, jfk)
    settle(jfk)
    assert jfk.documents() == ewr.documents()
    assert ttl(jfk) == 70
    assert jfk.events() == []


def test_a_namespace_that_is_created_meanwhile_arrives_when_the_tenant_allows_the_cluster(
    clusters: tuple[Cluster, Cluster],
) -> None:
    ewr, jfk = clusters
    allow(ewr, "ewr")
    exchange(ewr, jfk)
    settle(jfk)
    bills = NamespaceName("acme", "bills")
    ewr.resources.namespaces.create(bills, Policies(message_ttl_in_seconds=5))
    exchange(ewr, jfk)
    assert not jfk.resources.namespaces.exists(bills)
    allow(jfk, "ewr", "jfk")
    exchange(ewr, jfk)
    settle(jfk)
    assert jfk.documents() == ewr.documents()


def test_a_namespace_with_topics_stays_until_they_are_deleted(clusters: tuple[Cluster, Cluster]) -> None:
    ewr, jfk = clusters
    jfk.add_topic(ORDERS)
    allow(ewr, "ewr")
    exchange(ewr, jfk)
    assert settle(ewr, jfk) == [[], ["acme/orders"]]
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    assert ttl(jfk) == 70, "it is synchronized as before"
    topic = TopicName("persistent", "acme", "orders", "full")
    jfk.inner.commit([Delete(managed_ledger_path(topic))])
    assert settle(jfk) == [[]]
    assert not jfk.resources.namespaces.exists(ORDERS)
    exchange(ewr, jfk)
    assert ewr.resources.namespaces.exists(ORDERS)


def test_what_is_local_or_excluded_stays(clusters: tuple[Cluster, Cluster]) -> None:
    ewr, jfk = clusters
    with local_changes():
        jfk.resources.namespaces.create(NamespaceName("acme", "mine"), Policies())
    allow(ewr, "ewr")
    exchange(ewr, jfk)
    assert settle(jfk) == [[]]
    assert jfk.resources.namespaces.of_tenant("acme") == [NamespaceName("acme", "mine")]
    lga = Cluster("lga", rules=excluding("acme/orders"))
    lga.resources.namespaces.create(ORDERS, Policies())
    exchange(ewr, lga)
    assert settle(lga) == [[]]
    assert lga.resources.namespaces.exists(ORDERS)


def test_clusters_that_are_added_and_removed_at_the_same_time_are_all_considered() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo(allowedClusters=["ewr", "jfk"]))
    exchange(ewr, jfk)
    allow(ewr, "ewr", "jfk", "lga")
    allow(jfk, "jfk")
    exchange(ewr, jfk)
    assert allowed(ewr) == allowed(jfk) == ["jfk", "lga"]


def test_a_tenant_that_a_new_cluster_creates_keeps_the_clusters_of_the_others() -> None:
    """Each cluster creates the tenant public at its first start, for itself."""
    clusters = [Cluster(name, 1_000.0 + index) for index, name in enumerate(ALL)]
    for cluster in clusters:
        cluster.resources.tenants.create("acme", TenantInfo(allowedClusters=[cluster.name]))
    exchange(*clusters)
    assert [allowed(cluster) for cluster in clusters] == [ALL, ALL, ALL]


def test_a_deleted_namespace_does_not_come_back(clusters: tuple[Cluster, Cluster]) -> None:
    ewr, jfk = clusters
    allow(ewr, "ewr")
    exchange(ewr, jfk)
    settle(jfk)
    ewr.now_s += 1
    ewr.resources.namespaces.delete(ORDERS)
    exchange(ewr, jfk)
    allow(ewr, "ewr", "jfk")
    exchange(ewr, jfk)
    settle(jfk)
    assert not jfk.resources.namespaces.exists(ORDERS)
    assert jfk.events() == []


def test_a_tenant_that_names_no_cluster_allows_all() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    ewr.resources.namespaces.create(ORDERS, Policies())
    exchange(ewr, jfk)
    assert settle(jfk) == [[]]
    assert jfk.documents() == ewr.documents()


@pytest.mark.parametrize("seed", seeds(20, 40))
def test_clusters_that_are_allowed_agree_after_random_edits(seed: int) -> None:
    chance = Random(seed)
    clusters = [Cluster(name, 10_000.0 + chance.uniform(-600, 600)) for name in ALL]
    for _ in range(120):
        cluster, other = chance.sample(clusters, 2)
        match chance.randrange(6):
            case 0 if cluster.resources.tenants.exists("acme"):
                allow(cluster, *chance.sample(ALL, chance.randrange(1, 4)))
            case 1:
                settle(cluster)
            case 2:
                exchange(cluster, other)
            case 3:
                restart(cluster, RULES)
            case _:
                edit(cluster, chance)
    exchange(*clusters)
    exchange(*clusters)
    settle(*clusters)
    first, *others = [cluster.documents() for cluster in clusters]
    tenants = {path: value for path, value in first.items() if path.count("/") == 3}
    for each in others:
        assert {path: value for path, value in each.items() if path.count("/") == 3} == tenants
    is_allowed = [cluster.store.holdings.allows("acme") for cluster in clusters]
    for cluster, allows in zip(clusters, is_allowed, strict=True):
        assert allows or not [path for path in cluster.documents() if path.startswith("/admin/policies/acme/")]
    whole = [cluster.documents() for cluster, allows in zip(clusters, is_allowed, strict=True) if allows]
    kept = [{path: value for path, value in each.items() if "policies/" in path} for each in whole]
    assert all(_without_topics(each) == _without_topics(kept[0]) for each in kept)


def _without_topics(documents: dict[str, Any]) -> dict[str, Any]:
    """Topics are deleted in each cluster."""
    return {path: value for path, value in documents.items() if "topic-policies" not in path}
