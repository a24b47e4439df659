from __future__ import annotations

import pytest

from magnetar.base.errors import RequestError
from magnetar.base.names import NamespaceName
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.metasync.events import MetadataChangeEvent
from magnetar.metasync.local.preview import EXISTENCE, PlannedChange, preview
from tests.unit.metasync.test_store import Cluster

ORDERS = NamespaceName("acme", "orders")


def planned(cluster: Cluster, other: Cluster) -> list[PlannedChange]:
    """Return what a snapshot of another cluster would change."""
    events = map(MetadataChangeEvent.decode, other.store.snapshot())
    return [change for event in events for change in preview(cluster.store.holdings, event)]


def test_it_shows_what_an_event_would_change_and_changes_nothing() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    for cluster, ttl in ((ewr, 60), (jfk, 90)):
        cluster.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=ttl))
        cluster.now_s += 1
    jfk.resources.tenants.create("acme", TenantInfo(adminRoles=["r"]))
    before = list(ewr.inner.below("/"))
    assert planned(ewr, jfk) == [
        PlannedChange(EXISTENCE, before=False, after=True),
        PlannedChange("/adminRoles", None, ["r"]),
    ]
    assert planned(jfk, ewr) == [PlannedChange("/message_ttl_in_seconds", 90, 60)]
    assert list(ewr.inner.below("/")) == before
    jfk.receive(*ewr.events())
    ewr.receive(*jfk.events())
    assert planned(ewr, jfk) == planned(jfk, ewr) == []


def test_a_deletion_is_one_change() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo(adminRoles=["r"]))
    jfk.receive(*ewr.events())
    jfk.resources.tenants.delete("acme")
    assert planned(ewr, jfk) == [PlannedChange(EXISTENCE, before=True, after=False)]


def test_an_event_that_would_be_refused_is_refused() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", now_s=100_000.0)
    jfk.resources.tenants.create("acme", TenantInfo())
    with pytest.raises(RequestError, match="ahead of the clock"):
        planned(ewr, jfk)
