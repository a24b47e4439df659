from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName
from magnetar.broker.loop.slices import at_once
from magnetar.broker.metadata_history import MetadataHistory
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.metasync.events import MetadataChangeEvent
from magnetar.metasync.local.scope import local_changes
from magnetar.metasync.local.values import LocalMetadata
from magnetar.metasync.places import Resource
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_store import Cluster

if TYPE_CHECKING:
    from magnetar.admin.models.metadata_sync import UndoneEdit

ORDERS = NamespaceName("acme", "orders")


@pytest.fixture
def ewr() -> Cluster:
    cluster = Cluster("ewr")
    cluster.resources.tenants.create("acme", TenantInfo())
    cluster.resources.namespaces.create(ORDERS, Policies())
    for ttl in (60, 90):
        set_policies(cluster, message_ttl_in_seconds=ttl)
    return cluster


def set_policies(cluster: Cluster, **policies: object) -> None:
    cluster.now_s += 1
    cluster.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update=policies))


def undo(cluster: Cluster, name: str, edit: str | None = None, *, force: bool = False) -> UndoneEdit:
    return asyncio.run(MetadataHistory(cluster.store).undo(name, edit, force=force))


def refusal(cluster: Cluster, name: str, edit: str | None = None, *, force: bool = False) -> tuple[HTTPStatus, str]:
    with pytest.raises(AdminError) as refused:
        undo(cluster, name, edit, force=force)
    return refused.value.status, str(refused.value)


def test_the_history_says_which_edit_counts(ewr: Cluster) -> None:
    jfk = Cluster("jfk", now_s=1_010.0)
    jfk.receive(*ewr.events())
    set_policies(ewr, message_ttl_in_seconds=7)
    set_policies(jfk, message_ttl_in_seconds=8)
    ewr.receive(jfk.events()[-1])
    created, first, second, lost, newest = at_once(MetadataHistory(ewr.store).of("acme/orders"))
    assert (created.change, created.cluster, created.edited_at) == ("Created", "ewr", "1970-01-01T00:16:40.000Z")
    (field,) = first.fields
    assert (field.field, field.before, field.after, field.state) == ("message_ttl_in_seconds", None, 60, "replaced")
    assert (second.fields[0].before, second.fields[0].state) == (60, "replaced")
    assert (lost.fields[0].state, lost.fields[0].lost_to) == ("lost", newest.edit)
    assert (newest.edit, newest.fields[0].state) == ("1011000.0.jfk", "current")
    assert (newest.edited_at, newest.arrived_at) == ("1970-01-01T00:16:51.000Z", "1970-01-01T00:16:43.000Z")


def local_states(cluster: Cluster, name: str = "acme/orders") -> list[tuple[str, dict[str, tuple[object, str]]]]:
    """Return the kind and the fields, with their values and states, of the edits for this cluster only."""
    return [
        (edit.change, {each.field: (each.after, each.state) for each in edit.fields})
        for edit in at_once(MetadataHistory(cluster.store).of(name))
        if edit.is_local
    ]


def test_edits_for_this_cluster_only_are_shown_and_never_published(ewr: Cluster) -> None:
    count = len(ewr.events())
    with local_changes():
        set_policies(ewr, message_ttl_in_seconds=5, properties={"a": "b"})
        set_policies(ewr, message_ttl_in_seconds=6)
    first = {"message_ttl_in_seconds": (5, "replaced"), "properties/a": ("b", "current")}
    assert local_states(ewr) == [("Modified", first), ("Modified", {"message_ttl_in_seconds": (6, "current")})]
    newest = at_once(MetadataHistory(ewr.store).of("acme/orders"))[-1]
    assert (newest.edit, newest.cluster, newest.fields[0].before) == ("1004000.0.ewr", "ewr", 5)
    assert len(ewr.events()) == count
    ewr.restart()
    set_policies(ewr, message_ttl_in_seconds=7)
    assert local_states(ewr)[1] == ("Modified", {"message_ttl_in_seconds": (6, "replaced")})
    jfk = Cluster("jfk")
    jfk.receive(*ewr.events())
    jfk.receive(*map(MetadataChangeEvent.decode, ewr.store.snapshot()))
    assert local_states(jfk) == []


def test_the_timestamp_of_a_local_edit_is_not_given_again_after_a_restart(ewr: Cluster) -> None:
    with local_changes():
        set_policies(ewr, message_ttl_in_seconds=5)
    ewr.restart()
    ewr.now_s -= 1
    set_policies(ewr, properties={"a": "b"})
    assert [edit.is_local for edit in at_once(MetadataHistory(ewr.store).of("acme/orders"))[-2:]] == [True, False]


def test_a_resource_that_is_local_as_a_whole_has_a_local_history(ewr: Cluster) -> None:
    bills = NamespaceName("acme", "bills")
    with local_changes():
        ewr.resources.namespaces.create(bills, Policies(message_ttl_in_seconds=5))
    ewr.now_s += 1
    ewr.resources.namespaces.update(bills, lambda old: old.model_copy(update={"message_ttl_in_seconds": 6}))
    ttl = "message_ttl_in_seconds"
    assert local_states(ewr, "acme/bills") == [("Created", {ttl: (5, "replaced")}), ("Modified", {ttl: (6, "current")})]
    with local_changes():
        ewr.resources.namespaces.delete(ORDERS)
    assert local_states(ewr) == [("Deleted", {ttl: (None, "current")})]
    assert LocalMetadata(ewr.store.holdings).remove(Resource(ResourceType.NAMESPACES, "acme/orders")) is not None
    assert local_states(ewr) == [("Deleted", {ttl: (None, "replaced")})]


def test_the_creation_for_all_clusters_of_what_was_local_is_shown() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    with local_changes():
        ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=5))
    assert LocalMetadata(ewr.store.holdings).remove(Resource(ResourceType.NAMESPACES, "acme/orders")) is not None
    jfk.receive(*ewr.events())
    for cluster in (ewr, jfk):
        (created,) = (each for each in at_once(MetadataHistory(cluster.store).of("acme/orders")) if not each.is_local)
        assert (created.change, created.cluster) == ("Created", "ewr")
        assert {each.field: each.state for each in created.fields} == {"message_ttl_in_seconds": "current"}


def test_an_edit_of_what_belongs_to_each_cluster_is_not_shown(ewr: Cluster) -> None:
    with local_changes():
        set_policies(ewr, replication_clusters=["ewr"])
    assert local_states(ewr) == []


def test_a_local_edit_is_ended_and_not_undone(ewr: Cluster) -> None:
    with local_changes():
        set_policies(ewr, message_ttl_in_seconds=5)
    status, reason = refusal(ewr, "acme/orders")
    assert status is HTTPStatus.PRECONDITION_FAILED
    assert reason.endswith("end it with: magnetar metadata remove-local acme/orders --field message_ttl_in_seconds")
    assert undo(ewr, "acme/orders", "1002000.0.ewr").restored == {"message_ttl_in_seconds": 60}


def test_undo_is_a_new_edit_for_all_clusters(ewr: Cluster) -> None:
    jfk = Cluster("jfk")
    ewr.now_s += 5
    found = undo(ewr, "acme/orders")
    assert (found.edit, found.restored) == ("1002000.0.ewr", {"message_ttl_in_seconds": 60})
    jfk.receive(*ewr.events())
    for cluster in (ewr, jfk):
        policies = cluster.resources.namespaces.get(ORDERS)
        assert policies is not None
        assert policies.message_ttl_in_seconds == 60
    assert at_once(MetadataHistory(jfk.store).of("acme/orders"))[-1].edited_at == "1970-01-01T00:16:47.000Z"


def test_undo_of_an_edit_that_later_ones_changed_needs_force(ewr: Cluster) -> None:
    status, reason = refusal(ewr, "acme/orders", "1001000.0.ewr")
    assert status is HTTPStatus.CONFLICT
    assert reason == "later edits changed the same fields: message_ttl_in_seconds by 1002000.0.ewr"
    assert undo(ewr, "acme/orders", "1001000.0.ewr", force=True).restored == {"message_ttl_in_seconds": None}


def test_undo_of_a_deletion_needs_the_tenant(ewr: Cluster) -> None:
    ewr.resources.namespaces.delete(ORDERS)
    ewr.resources.tenants.delete("acme")
    status, reason = refusal(ewr, "acme/orders")
    assert status is HTTPStatus.PRECONDITION_FAILED
    assert reason == "acme does not exist: restore it before acme/orders"
    undo(ewr, "acme")
    undo(ewr, "acme/orders")
    policies = ewr.resources.namespaces.get(ORDERS)
    assert policies is not None
    assert policies.message_ttl_in_seconds == 90


@pytest.mark.parametrize(
    ("name", "edit", "status", "reason"),
    [
        ("acme/orders", "1.2.ewr", HTTPStatus.NOT_FOUND, "no edit 1.2.ewr of acme/orders is kept"),
        ("acme/orders", "newest-one", HTTPStatus.PRECONDITION_FAILED, "names no edit: expected time.counter.cluster"),
        ("acme/orders", "1000000.1.ewr", HTTPStatus.PRECONDITION_FAILED, "delete it instead"),
        ("acme/other", None, HTTPStatus.NOT_FOUND, "no edit of acme/other is known"),
        ("persistent://acme/orders/t", None, HTTPStatus.NOT_FOUND, "no edit of persistent://acme/orders/t is known"),
        ("a b", None, HTTPStatus.PRECONDITION_FAILED, "invalid tenant name"),
        ("http://x", None, HTTPStatus.PRECONDITION_FAILED, "invalid topic name"),
    ],
)
def test_what_cannot_be_undone_is_refused(
    ewr: Cluster, name: str, edit: str | None, status: HTTPStatus, reason: str
) -> None:
    found = refusal(ewr, name, edit)
    assert found[0] is status
    assert reason in found[1]
