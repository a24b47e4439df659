from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from magnetar.base.names import NamespaceName
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.metasync.conflicts import lost_edits
from magnetar.metasync.places import resource_at
from magnetar.metasync.records import Edit, Record
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_store import Cluster

if TYPE_CHECKING:
    from magnetar.metasync.events import MetadataChangeEvent

ORDERS = NamespaceName("acme", "orders")


def record(value: object, at: int, cluster: str, replaced: Timestamp | None = None) -> Record:
    return Record(ResourceType.TENANTS, edits={"/x": Edit(Timestamp(at, 0, cluster), value, replaced)})


def set_policies(cluster: Cluster, **policies: object) -> None:
    cluster.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update=policies))


def test_of_two_concurrent_edits_the_older_one_lost_whichever_arrives_first() -> None:
    one, two = record(1, 5, "ewr"), record(2, 7, "jfk")
    for known, arrived in ((one, two), (two, one)):
        (lost,) = lost_edits(known, arrived)
        assert (lost.unit, lost.edit, lost.winner) == ("/x", one.edits["/x"], Timestamp(7, 0, "jfk"))


def test_an_edit_that_was_made_after_seeing_the_other_one_is_no_conflict() -> None:
    one = record(1, 5, "ewr")
    two = record(2, 7, "jfk", one.edits["/x"].timestamp)
    assert lost_edits(one, two) == lost_edits(two, one) == []
    # It has also seen what the replaced edit replaced itself.
    three = record(3, 9, "lga", two.edits["/x"].timestamp)
    assert lost_edits(one, three) == lost_edits(three, one) == []


def test_repeated_and_equal_edits_do_not_compete() -> None:
    one = record(1, 5, "ewr")
    assert lost_edits(one, one) == []
    assert lost_edits(one, record(1, 7, "jfk")) == []


def test_fewer_partitions_lose_although_they_are_newer() -> None:
    few = Record(ResourceType.TOPICS, edits={"/partitions": Edit(Timestamp(9, 0, "ewr"), 4)})
    many = Record(ResourceType.TOPICS, edits={"/partitions": Edit(Timestamp(5, 0, "jfk"), 6)})
    (lost,) = lost_edits(few, many)
    assert lost.edit.value == 4
    assert lost == lost_edits(many, few)[0]


def test_clusters_count_the_edits_that_lost() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", now_s=1_005.0)
    ewr.resources.namespaces.create(ORDERS, Policies())
    jfk.receive(*ewr.events())
    for cluster, ttl in ((ewr, 60), (jfk, 90)):
        set_policies(cluster, message_ttl_in_seconds=ttl, properties={cluster.name: "1"})
    ewr.receive(*jfk.events())
    jfk.receive(*ewr.events())
    assert (ewr.store.conflicts, jfk.store.conflicts) == (1, 1)
    # The next edit knows both.
    set_policies(jfk, message_ttl_in_seconds=7)
    ewr.receive(jfk.events()[-1])
    assert (ewr.store.conflicts, jfk.store.conflicts) == (1, 1)


def test_an_edit_that_a_deletion_did_not_know_lost_against_it() -> None:
    one = record(1, 5, "ewr")
    deletion = Record(ResourceType.TENANTS, deleted=Timestamp(7, 0, "jfk"), replaced=(Timestamp(4, 0, "ewr"),))
    for known, arrived in ((one, deletion), (deletion, one)):
        (lost,) = lost_edits(known, arrived)
        assert (lost.unit, lost.edit, lost.winner) == ("/x", one.edits["/x"], deletion.deleted)


def test_a_deletion_that_knew_an_edit_replaced_it() -> None:
    one = record(1, 5, "ewr")
    for replaced in ((Timestamp(5, 0, "ewr"),), (Timestamp(6, 0, "ewr"),), None):
        deletion = Record(ResourceType.TENANTS, deleted=Timestamp(7, 0, "jfk"), replaced=replaced)
        assert lost_edits(one, deletion) == lost_edits(deletion, one) == []


def test_clusters_count_the_edits_that_lost_against_a_deletion() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", now_s=1_005.0)
    ewr.resources.namespaces.create(ORDERS, Policies())
    jfk.receive(*ewr.events())
    set_policies(ewr, message_ttl_in_seconds=60)
    jfk.resources.namespaces.delete(ORDERS)
    ewr.receive(*jfk.events())
    jfk.receive(*ewr.events())
    assert (ewr.store.conflicts, jfk.store.conflicts) == (1, 1)
    resource = resource_at("/admin/policies/acme/orders")
    assert resource is not None
    for cluster in (ewr, jfk):
        created, edited, deleted = cluster.store.history.of(resource)
        assert created.is_creation
        assert edited.changes["/message_ttl_in_seconds"].lost_to == deleted.timestamp


@pytest.mark.parametrize("seed", range(20))
def test_edits_of_clusters_that_see_each_other_never_compete(seed: int) -> None:
    chance = Random(seed)
    clusters = [Cluster(name, 1_000.0 + chance.uniform(-600, 600)) for name in ("ewr", "jfk", "lga")]
    clusters[0].resources.tenants.create("acme", TenantInfo())
    carried: list[MetadataChangeEvent] = []
    for _ in range(30):
        for source in clusters:
            fresh = [event for event in source.events() if event not in carried]
            carried += fresh
            for other in clusters:
                other.receive(*(fresh if other is not source else ()))
        chance.choice(clusters).resources.tenants.put("acme", TenantInfo(adminRoles=[str(chance.random())]))
    assert [cluster.store.conflicts for cluster in clusters] == [0, 0, 0]
