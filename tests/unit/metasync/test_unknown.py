"""Fields of a later version are kept, synchronized and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.loop.slices import at_once
from magnetar.metadata.policies import Policies
from magnetar.metasync.documents import unknown_fields
from magnetar.metasync.events import EventType, MetadataChangeEvent
from magnetar.metasync.local import unknown
from magnetar.metasync.local.unknown import find_unknown
from magnetar.metasync.places import Resource
from magnetar.metasync.records import Edit, Record
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_different_rules import change, exchange, restart
from tests.unit.metasync.test_store import ORDERS, RULES, Cluster

if TYPE_CHECKING:
    import pytest

ACME_ORDERS = Resource(ResourceType.NAMESPACES, "acme/orders")
LATER = {
    "of_tomorrow": {"a": [1, 2]},
    "retention_policies": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5, "maxAge": 7},
}


def event(time_ms: int, **edits: object) -> MetadataChangeEvent:
    """Return an event of a cluster with a later version."""
    timestamp = Timestamp(time_ms, 0, "new")
    record = Record(
        ACME_ORDERS.kind, timestamp, None, {f"/{field}": Edit(timestamp, value) for field, value in edits.items()}
    )
    return MetadataChangeEvent(EventType.CREATED, ACME_ORDERS, "new", time_ms, record)


def document(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.documents()[ACME_ORDERS.path]
    return found


def test_unknown_fields_survive_merges_edits_snapshots_and_restarts() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.receive(event(900_000, **LATER))
    change(ewr, message_ttl_in_seconds=60)
    restart(ewr, RULES)
    assert [list(each.record.edits) for each in ewr.events()] == [["/message_ttl_in_seconds"]]
    exchange(ewr, jfk)
    assert {name: document(jfk)[name] for name in LATER} == LATER
    assert jfk.documents() == ewr.documents()
    back = MetadataChangeEvent.decode(next(jfk.store.snapshot()))
    assert {unit: edit.value for unit, edit in back.record.edits.items()} == {
        "/of_tomorrow": {"a": [1, 2]},
        "/retention_policies": LATER["retention_policies"],
        "/message_ttl_in_seconds": 60,
    }
    jfk.receive(event(2_000_000, of_tomorrow=None))
    assert "of_tomorrow" not in document(jfk)


def test_unknown_fields_are_found_with_the_cluster_that_set_them() -> None:
    ewr = Cluster("ewr")
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    assert at_once(find_unknown(ewr.store.holdings)) == []
    ewr.receive(event(1_500_000, **LATER))
    found = at_once(find_unknown(ewr.store.holdings))
    assert [(each.resource, each.pointer, each.value) for each in found] == [
        (ACME_ORDERS, "/of_tomorrow", {"a": [1, 2]}),
        (ACME_ORDERS, "/retention_policies/maxAge", 7),
    ]
    assert [each.edit and each.edit.timestamp for each in found] == [Timestamp(1_500_000, 0, "new")] * 2


def test_at_most_so_many_unknown_fields_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown, "UNKNOWN_MAX", 1)
    ewr = Cluster("ewr")
    ewr.receive(event(900_000, **LATER))
    assert len(at_once(find_unknown(ewr.store.holdings))) == 1


def test_unknown_fields_inside_others_have_pointers() -> None:
    quota = {"limitSize": 1, "policy": "producer_exception", "a/b": 1}
    found = unknown_fields(
        ResourceType.NAMESPACES, {"backlog_quota_map": {"message_age": quota}, "properties": {"x": "y"}}
    )
    assert found == {"/backlog_quota_map/message_age/a~1b": 1}
