from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo
from magnetar.metasync import history, store
from magnetar.metasync.history import Change
from magnetar.metasync.local.scope import local_changes
from magnetar.metasync.places import HISTORY, Resource
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.undo import OverriddenError, UndoError, undone
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_store import Cluster

if TYPE_CHECKING:
    from magnetar.metasync.history import PastEdit
    from magnetar.metasync.units import Document

ORDERS = NamespaceName("acme", "orders")
NAMESPACE = Resource(ResourceType.NAMESPACES, "acme/orders")
PARTS = TopicName.parse("persistent://acme/orders/parts")


def new_cluster(name: str = "ewr", now_s: float = 1_000.0) -> Cluster:
    cluster = Cluster(name, now_s)
    cluster.resources.namespaces.create(ORDERS, Policies())
    return cluster


def set_policies(cluster: Cluster, **policies: object) -> None:
    cluster.now_s += 1
    cluster.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update=policies))


def past(cluster: Cluster, resource: Resource = NAMESPACE) -> list[PastEdit]:
    return list(cluster.store.history.of(resource))


def undo(cluster: Cluster, edit: PastEdit, *, force: bool = False) -> Document:
    stored = cluster.resources.namespaces.get(ORDERS)
    document = None if stored is None else stored.to_json()
    return undone(NAMESPACE, edit, cluster.store.record(NAMESPACE), document, force=force)


def test_an_edit_is_kept_with_the_value_before_and_survives_a_restart() -> None:
    ewr = new_cluster()
    set_policies(ewr, message_ttl_in_seconds=60)
    set_policies(ewr, message_ttl_in_seconds=90, properties={"team": "x"})
    ewr.restart()
    created, first, second = past(ewr)
    assert created.is_creation
    assert first.timestamp == Timestamp(1_001_000, 0, "ewr")
    assert first.changes == {"/message_ttl_in_seconds": Change(60, None)}
    assert second.changes == {"/message_ttl_in_seconds": Change(90, 60), "/properties/team": Change("x", None)}
    assert second.arrived_ms == 1_002_000


def test_an_edit_for_this_cluster_only_is_kept_with_the_value_before() -> None:
    ewr = new_cluster()
    with local_changes():
        set_policies(ewr, message_ttl_in_seconds=60)
    ewr.restart()
    _, edit = past(ewr)
    assert (edit.is_local, edit.timestamp) == (True, Timestamp(1_001_000, 0, "ewr"))
    assert edit.changes == {"/message_ttl_in_seconds": Change(60, None)}
    with pytest.raises(UndoError, match="for this cluster only"):
        undo(ewr, edit)


def test_an_edit_of_another_cluster_is_kept_with_its_timestamp_and_the_time_of_its_arrival() -> None:
    ewr, jfk = new_cluster(), Cluster("jfk", now_s=1_050.0)
    set_policies(ewr, message_ttl_in_seconds=60)
    jfk.receive(*ewr.events())
    *_, edit = past(jfk)
    assert edit.timestamp == past(ewr)[-1].timestamp
    assert (edit.arrived_ms, edit.changes) == (1_050_000, {"/message_ttl_in_seconds": Change(60, None)})


def test_the_edit_that_lost_is_marked_in_all_clusters_and_counted_once() -> None:
    ewr, jfk = new_cluster(), Cluster("jfk", now_s=1_005.0)
    jfk.receive(*ewr.events())
    set_policies(ewr, message_ttl_in_seconds=60)
    set_policies(jfk, message_ttl_in_seconds=90)
    loser, winner = ewr.events()[-1], jfk.events()[-1]
    for _ in range(3):
        ewr.receive(winner)
        jfk.receive(loser)
        ewr.restart()
    assert [each.changes["/message_ttl_in_seconds"].lost_to for each in past(ewr)[1:]] == [past(jfk)[2].timestamp, None]
    assert [each.changes["/message_ttl_in_seconds"].lost_to for each in past(jfk)[1:]] == [past(jfk)[2].timestamp, None]
    assert jfk.store.conflicts == 1


def test_only_the_newest_edits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "EDITS_MAX", 3)
    ewr = new_cluster()
    for ttl in range(1, 6):
        set_policies(ewr, message_ttl_in_seconds=ttl)
    assert [each.changes["/message_ttl_in_seconds"].value for each in past(ewr)] == [3, 4, 5]


def test_an_edit_that_is_too_large_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "EDIT_BYTES_MAX", 300)
    ewr = new_cluster()
    set_policies(ewr, properties={"a": "x" * 300})
    set_policies(ewr, properties={"a" * length: "x" for length in range(100)})
    _, one, many = past(ewr)
    assert (one.changes, one.is_complete) == ({"/properties/a": Change(None, None)}, False)
    assert 0 < len(many.changes) < 100
    with pytest.raises(UndoError, match="former values were not kept"):
        undo(ewr, one)


def test_the_edits_of_a_forgotten_resource_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "DELETED_MAX", 0)
    ewr = new_cluster()
    ewr.resources.namespaces.delete(ORDERS)
    assert past(ewr)[-1].is_deletion
    assert len(list(ewr.store.snapshot())) == 1
    assert list(ewr.inner.below(HISTORY)) == []


def test_the_kinds_of_a_topic_have_histories_of_their_own() -> None:
    ewr = new_cluster()
    ewr.resources.partitioned_topics.create(PARTS, PartitionedTopicMetadata(partitions=2))
    ewr.resources.topic_policies.change(PARTS, maxMessageSize=5)
    for kind, unit in ((ResourceType.TOPICS, "/partitions"), (ResourceType.TOPIC_POLICIES, "/maxMessageSize")):
        (edit,) = past(ewr, Resource(kind, str(PARTS)))
        assert set(edit.changes) == {unit}
    ewr.resources.tenants.create("acme", TenantInfo())
    (edit,) = past(ewr, Resource(ResourceType.TENANTS, "acme"))
    assert edit.is_creation


def test_undo_restores_only_what_the_edit_changed() -> None:
    ewr = new_cluster()
    set_policies(ewr, message_ttl_in_seconds=60, properties={"team": "x"})
    set_policies(ewr, message_ttl_in_seconds=90)
    set_policies(ewr, properties={"team": "x", "other": "y"})
    _, _, edit, _ = past(ewr)
    found = undo(ewr, edit)
    assert (found["message_ttl_in_seconds"], found["properties"]) == (60, {"team": "x", "other": "y"})


def test_undo_of_a_first_value_removes_it() -> None:
    ewr = new_cluster()
    set_policies(ewr, message_ttl_in_seconds=60)
    assert "message_ttl_in_seconds" not in undo(ewr, past(ewr)[-1])


def test_undo_refuses_when_a_later_edit_changed_the_same_field() -> None:
    ewr = new_cluster()
    set_policies(ewr, message_ttl_in_seconds=60)
    set_policies(ewr, message_ttl_in_seconds=90)
    with pytest.raises(OverriddenError, match="later edits changed the same fields: message_ttl_in_seconds by 1002000"):
        undo(ewr, past(ewr)[1])
    assert "message_ttl_in_seconds" not in undo(ewr, past(ewr)[1], force=True)


def test_undo_of_a_deletion_restores_the_resource() -> None:
    ewr = new_cluster()
    set_policies(ewr, message_ttl_in_seconds=60, replication_clusters=["ewr", "jfk"])
    before = ewr.resources.namespaces.get(ORDERS)
    ewr.resources.namespaces.delete(ORDERS)
    *_, edited, deleted = past(ewr)
    assert before is not None
    assert undo(ewr, deleted) == before.to_json()
    with pytest.raises(UndoError, match="does not exist: undo its deletion first"):
        undo(ewr, edited)
    ewr.resources.namespaces.create(ORDERS, Policies())
    with pytest.raises(UndoError, match="exists again"):
        undo(ewr, deleted, force=True)


def test_undo_refuses_what_has_no_former_value() -> None:
    ewr, jfk = new_cluster(), Cluster("jfk", now_s=1_005.0)
    jfk.receive(*ewr.events())
    set_policies(ewr, message_ttl_in_seconds=60)
    set_policies(jfk, message_ttl_in_seconds=90)
    ewr.receive(jfk.events()[-1])
    created, lost, _ = past(ewr)
    with pytest.raises(UndoError, match="the edit created acme/orders: delete it instead"):
        undo(ewr, created)
    with pytest.raises(UndoError, match="lost against concurrent ones"):
        undo(ewr, lost)
    ewr.resources.partitioned_topics.create(PARTS, PartitionedTopicMetadata(partitions=2))
    ewr.resources.partitioned_topics.update(PARTS, lambda _: PartitionedTopicMetadata(partitions=3))
    topic = Resource(ResourceType.TOPICS, str(PARTS))
    with pytest.raises(UndoError, match="the number of partitions only grows"):
        undone(topic, past(ewr, topic)[-1], ewr.store.record(topic), {"partitions": 3})
