"""Local changes stay in their cluster, and what is not local agrees everywhere."""

from __future__ import annotations

import contextlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.broker.loop.slices import at_once
from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo
from magnetar.metadata.policy.values import RetentionPolicies
from magnetar.metasync.documents import DEFAULTS
from magnetar.metasync.local.marks import WHOLE, Reason
from magnetar.metasync.local.scope import is_local, local_changes, naming
from magnetar.metasync.local.values import LocalMetadata
from magnetar.metasync.places import Resource, resource_at
from magnetar.metasync.records import PARTITIONS
from magnetar.metasync.units import ResourceType, units_of
from tests.kit.seeds import seeds
from tests.unit.metasync.test_different_rules import TTL, change, exchange, excluding, restart, ttl
from tests.unit.metasync.test_store import ORDERS, RULES, TOPIC, Cluster, edit

if TYPE_CHECKING:
    from magnetar.metasync.local.marks import Marks
    from magnetar.metasync.local.values import LocalValue

ACME_ORDERS = Resource(ResourceType.NAMESPACES, "acme/orders")


def pair() -> tuple[Cluster, Cluster]:
    """Return two clusters with a namespace."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    return ewr, jfk


def change_locally(cluster: Cluster, **fields: object) -> None:
    with local_changes():
        change(cluster, ORDERS, **fields)


def marks(cluster: Cluster) -> dict[Resource, Marks]:
    return {resource: cluster.store.holdings.held(resource).marks for resource in cluster.store.holdings.marked()}


def remove(cluster: Cluster, resource: Resource = ACME_ORDERS, field: str = "") -> bool:
    return LocalMetadata(cluster.store.holdings).remove(resource, field) is not None


def local_values(cluster: Cluster) -> list[LocalValue]:
    found = LocalMetadata(cluster.store.holdings)
    values = at_once(found.values())
    assert found.count == len(values)
    return values


def test_the_number_of_local_values_follows_the_changes() -> None:
    _, jfk = pair()
    found = LocalMetadata(jfk.store.holdings)
    assert found.count == 0
    change_locally(jfk, message_ttl_in_seconds=5, retention_policies=RetentionPolicies(retentionTimeInMinutes=1))
    assert found.count == 2
    remove(jfk, field=f"/{TTL}")
    assert found.count == len(local_values(jfk)) == 1
    remove(jfk)
    assert found.count == 0


def test_the_scope_ends_with_its_block() -> None:
    assert not is_local()
    with local_changes():
        assert is_local()
    assert not is_local()


def test_a_local_edit_stays_here_and_edits_of_others_do_not_change_it() -> None:
    ewr, jfk = pair()
    change_locally(jfk, message_ttl_in_seconds=5)
    assert jfk.events() == []
    change(ewr, message_ttl_in_seconds=70, properties={"a": "b"})
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (70, 5)
    found = jfk.resources.namespaces.get(ORDERS)
    assert found is not None
    assert found.properties == {"a": "b"}
    jfk.restart()
    list(jfk.store.adopt())
    assert jfk.events() == []
    (value,) = local_values(jfk)
    assert (value.resource, value.unit, value.reason) == (ACME_ORDERS, f"/{TTL}", Reason.EDIT)
    assert (value.here, value.common, value.since_ms) == (5, 70, 1_001_000)


def test_a_local_value_ends_with_the_next_edit_of_the_field_here() -> None:
    ewr, jfk = pair()
    change_locally(jfk, message_ttl_in_seconds=5)
    change(jfk, properties={"a": "b"})
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (60, 5)
    change(jfk, message_ttl_in_seconds=7)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (7, 7)
    assert marks(jfk) == {}
    change(ewr, message_ttl_in_seconds=8)
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()


def test_an_edit_that_names_a_unit_makes_its_local_value_that_of_all_clusters() -> None:
    ewr, jfk = pair()
    change_locally(jfk, message_ttl_in_seconds=5, max_producers_per_topic=3)
    with naming("/message_ttl_in_seconds"):
        change(jfk, message_ttl_in_seconds=5)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (5, 5)
    (found,) = marks(jfk).values()
    assert found.keys() == {"/max_producers_per_topic"}


def test_a_local_edit_that_names_a_unit_keeps_the_value_of_all_clusters_here() -> None:
    ewr, jfk = pair()
    with naming("/message_ttl_in_seconds", "/replication_clusters"):
        change_locally(jfk, message_ttl_in_seconds=60)
    assert jfk.events() == []
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (70, 60)
    (found,) = marks(jfk).values()
    assert found.keys() == {"/message_ttl_in_seconds"}
    assert remove(jfk)
    assert ttl(jfk) == 70


def test_a_local_policy_of_a_topic_without_policies_makes_no_other_policy_local() -> None:
    """The first policy creates the document, which is no matter of the operator."""
    ewr, jfk = pair()
    policies = jfk.resources.topic_policies
    with local_changes():
        policies.change(TOPIC, messageTTLInSeconds=5)
    jfk.restart()
    list(jfk.store.adopt())
    assert jfk.events() == []
    policies = jfk.resources.topic_policies
    policies.change(TOPIC, maxMessageSize=7)
    ewr.resources.topic_policies.change(TOPIC, maxProducerPerTopic=3)
    exchange(ewr, jfk)
    common = {"maxMessageSize": 7, "maxProducerPerTopic": 3}
    path = Resource(ResourceType.TOPIC_POLICIES, str(TOPIC)).path
    for cluster, here in ((ewr, common), (jfk, common | {"messageTTLInSeconds": 5})):
        assert {name: value for name, value in cluster.documents()[path].items() if value} == here
    assert remove(jfk, Resource(ResourceType.TOPIC_POLICIES, str(TOPIC)))
    assert jfk.documents() == ewr.documents()


def test_a_local_policy_of_a_topic_that_has_policies_elsewhere_is_one_among_them() -> None:
    ewr, jfk = pair()
    ewr.resources.topic_policies.change(TOPIC, maxProducerPerTopic=3)
    exchange(ewr, jfk)
    jfk.resources.topic_policies.delete(TOPIC)
    with local_changes():
        jfk.resources.topic_policies.change(TOPIC, messageTTLInSeconds=5)
    found = jfk.resources.topic_policies.get(TOPIC)
    assert found is not None
    assert (found.messageTTLInSeconds, found.maxProducerPerTopic) == (5, 3)
    assert jfk.events() == []


def test_a_local_value_is_returned_to_the_common_one() -> None:
    ewr, jfk = pair()
    change_locally(jfk, message_ttl_in_seconds=5, properties={"a": "b", "c": "d"})
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    assert remove(jfk, field=f"/{TTL}")
    assert ttl(jfk) == 70
    assert not remove(jfk, field=f"/{TTL}")
    assert remove(jfk, field="/properties")
    assert marks(jfk) == {}
    assert jfk.documents() == ewr.documents()
    assert jfk.events() == []


def test_a_removal_can_be_local() -> None:
    ewr, jfk = pair()
    change_locally(jfk, message_ttl_in_seconds=None)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (60, None)
    remove(jfk)
    assert ttl(jfk) == 60


def test_a_deletion_elsewhere_ends_local_values() -> None:
    ewr, jfk = pair()
    change_locally(jfk, message_ttl_in_seconds=5)
    ewr.resources.namespaces.delete(ORDERS)
    exchange(ewr, jfk)
    assert jfk.documents() == {}
    assert marks(jfk) == {}
    ewr.now_s += 5
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=9))
    exchange(ewr, jfk)
    assert ttl(jfk) == 9


def test_a_namespace_that_was_created_locally_is_published_when_it_is_no_longer_local() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    with local_changes():
        jfk.resources.namespaces.create(ORDERS, Policies())
    change(jfk, message_ttl_in_seconds=5)
    restart(jfk, RULES)
    exchange(ewr, jfk)
    assert ewr.documents() == {}
    assert remove(jfk)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (5, 5)


def test_what_is_created_in_a_local_namespace_is_local_and_published_with_it() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    with local_changes():
        ewr.resources.tenants.create("acme", TenantInfo())
    ewr.resources.namespaces.create(ORDERS, Policies())
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=2))
    ewr.resources.partitioned_topics.update(TOPIC, lambda old: old.model_copy(update={"partitions": 3}))
    ewr.resources.topic_policies.change(TOPIC, messageTTLInSeconds=5)
    ewr.restart()
    list(ewr.store.adopt())
    assert ewr.events() == []
    local, acme = LocalMetadata(ewr.store.holdings), Resource(ResourceType.TENANTS, "acme")
    inside = local.inside(acme)
    assert {each.kind for each in inside} == set(ResourceType) - {ResourceType.TENANTS, ResourceType.ROUTES}
    assert local.inside(Resource(ResourceType.TENANTS, "other")) == []
    for resource in (acme, *inside):
        assert remove(ewr, resource)
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()
    ewr.resources.partitioned_topics.update(TOPIC, lambda old: old.model_copy(update={"partitions": 4}))
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()


def test_a_namespace_that_was_created_locally_becomes_that_of_the_others() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    with local_changes():
        jfk.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=5))
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (60, 5)
    assert remove(jfk)
    assert jfk.documents() == ewr.documents()
    assert jfk.events() == []


def test_a_namespace_that_was_deleted_locally_stays_away_until_it_is_returned() -> None:
    ewr, jfk = pair()
    with local_changes():
        jfk.resources.namespaces.delete(ORDERS)
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    restart(jfk, RULES)
    assert (jfk.documents(), jfk.events()) == ({}, [])
    (value,) = local_values(jfk)
    assert (value.unit, value.here, value.common) == (WHOLE, False, True)
    jfk.resources.namespaces.create(ORDERS, Policies())
    assert jfk.events() == [], "it is local until it is returned"
    remove(jfk)
    assert jfk.documents() == ewr.documents()


def test_a_local_creation_and_deletion_leaves_nothing() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    with local_changes():
        jfk.resources.tenants.create("acme", TenantInfo())
        jfk.resources.tenants.delete("acme")
    assert (marks(jfk), jfk.events()) == ({}, [])
    ewr.resources.tenants.create("acme", TenantInfo())
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()


def test_local_partitions_stay_while_the_others_have_fewer() -> None:
    """The number of partitions only grows: otherwise their messages would be out of reach."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=2))
    exchange(ewr, jfk)
    with local_changes():
        jfk.resources.partitioned_topics.put(TOPIC, PartitionedTopicMetadata(partitions=4))
    resource = Resource(ResourceType.TOPICS, str(TOPIC))

    def partitions() -> list[int]:
        found = [cluster.resources.partitioned_topics.get(TOPIC) for cluster in (ewr, jfk)]
        return [each.partitions for each in found if each is not None]

    remove(jfk, resource)
    assert partitions() == [2, 4]
    assert list(marks(jfk)[resource]) == [PARTITIONS]
    restart(jfk, RULES)
    assert jfk.events() == []
    ewr.resources.partitioned_topics.put(TOPIC, PartitionedTopicMetadata(partitions=8))
    exchange(ewr, jfk)
    assert partitions() == [8, 8]
    assert marks(jfk) == {}


def test_a_local_edit_of_an_excluded_field_stays_when_the_rule_ends() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding(f"*#{TTL}"))
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    change_locally(jfk, message_ttl_in_seconds=5)
    restart(jfk, RULES)
    assert ttl(jfk) == 5
    remove(jfk)
    assert ttl(jfk) == 60


def test_a_field_that_belongs_to_each_cluster_is_not_marked() -> None:
    _, jfk = pair()
    change_locally(jfk, replication_clusters=["jfk"])
    assert marks(jfk) == {}


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_random_edits_of_both_scopes(seed: int) -> None:
    """What is marked never changes by an exchange; all the rest is equal at the end."""
    chance = Random(seed)
    clusters = [Cluster(name, 10_000.0 + chance.uniform(-600, 600)) for name in ("ewr", "jfk", "lga")]
    for _ in range(150):
        cluster, other = chance.sample(clusters, 2)
        if chance.random() < 0.6:
            published = len(cluster.events())
            with local_changes() if chance.random() < 0.3 else contextlib.nullcontext():
                edit(cluster, chance)
                assert not is_local() or len(cluster.events()) == published
        else:
            before = [(each, marks(each), each.documents()) for each in (cluster, other)]
            exchange(cluster, other)
            for each, marked, documents in before:
                _check_unchanged(each, marked, documents)
            if chance.random() < 0.2:
                cluster.restart()
                list(cluster.store.adopt())
    for _ in range(2):
        exchange(*clusters)
    _check_equal(clusters)
    for cluster in clusters:
        for resource in marks(cluster):
            remove(cluster, resource)
    for _ in range(2):
        exchange(*clusters)
    kept = [unit for cluster in clusters for found in marks(cluster).values() for unit in found]
    assert set(kept) <= {PARTITIONS}
    _check_equal(clusters)


def _check_unchanged(cluster: Cluster, marked: dict[Resource, Marks], documents: dict[str, Any]) -> None:
    after = cluster.documents()
    for resource, found in marked.items():
        if WHOLE in found:
            assert after.get(resource.path) == documents.get(resource.path)
        elif resource.path in after:
            old, new = (units_of(resource.kind, each[resource.path]) for each in (documents, after))
            assert all(old.get(unit) == new.get(unit) for unit in found if unit != PARTITIONS)


def _check_equal(clusters: list[Cluster]) -> None:
    """Check that the clusters agree on all units that none of those that have the resource marks."""
    all_documents, all_marks = [each.documents() for each in clusters], [marks(each) for each in clusters]
    for path in {path for found in all_documents for path in found}:
        resource = resource_at(path)
        assert resource is not None
        # Topic policies that a cluster lacks have no fields.
        missing = DEFAULTS[resource.kind] if resource.kind is ResourceType.TOPIC_POLICIES else None
        sharing = [
            (units_of(resource.kind, documents[path]) if path in documents else missing, marked.get(resource, {}))
            for documents, marked in zip(all_documents, all_marks, strict=True)
            if WHOLE not in marked.get(resource, {})
        ]
        assert len({units is None for units, _ in sharing}) <= 1 or resource.kind is ResourceType.TOPICS, path
        for unit in {unit for units, _ in sharing for unit in units or ()}:
            values = [repr(units.get(unit)) for units, marked in sharing if units is not None and unit not in marked]
            assert len(set(values)) <= 1, (path, unit, values)
