from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metasync import arrivals
from magnetar.metasync.events import EventType, MetadataChangeEvent
from magnetar.metasync.places import Resource
from magnetar.metasync.records import Record
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_store import Cluster

if TYPE_CHECKING:
    import pytest


def event(cluster: str, at_ms: int) -> MetadataChangeEvent:
    resource = Resource(ResourceType.TENANTS, "acme")
    return MetadataChangeEvent(EventType.SNAPSHOT, resource, cluster, at_ms, Record(resource.kind))


def test_the_newest_event_of_each_cluster_counts_also_one_without_news() -> None:
    ewr = Cluster("ewr")
    ewr.receive(event("jfk", 5_000), event("lga", 7_000), event("jfk", 3_000))
    assert ewr.store.arrivals.newest_ms == {"jfk": 5_000, "lga": 7_000}


def test_after_a_restart_a_time_is_at_most_so_much_older() -> None:
    ewr = Cluster("ewr")
    ewr.receive(event("jfk", 5_000))
    ewr.receive(event("jfk", 5_000 + arrivals.STORED_EVERY_MS - 1))
    ewr.restart()
    assert ewr.store.arrivals.newest_ms == {"jfk": 5_000}
    ewr.receive(event("jfk", 5_000 + arrivals.STORED_EVERY_MS))
    ewr.restart()
    assert ewr.store.arrivals.newest_ms == {"jfk": 5_000 + arrivals.STORED_EVERY_MS}


def test_the_cluster_with_the_oldest_event_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "CLUSTERS_MAX", 2)
    ewr = Cluster("ewr")
    ewr.receive(event("a", 5_000), event("b", 4_000), event("c", 6_000))
    assert ewr.store.arrivals.newest_ms == {"a": 5_000, "c": 6_000}
