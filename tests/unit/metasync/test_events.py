from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.limits import CLUSTER_NAME_LENGTH_MAX
from magnetar.metasync.events import (
    EVENT_BYTES_MAX,
    EVENT_EDITS_MAX,
    RECORD_HEAD_BYTES_MAX,
    EventError,
    EventType,
    MetadataChangeEvent,
)
from magnetar.metasync.places import Resource, resource_at
from magnetar.metasync.records import REPLACED_MAX, Edit, Record
from magnetar.metasync.rules import OF_EACH_CLUSTER
from magnetar.metasync.timestamps import COUNTER_MAX, TIME_MS_MAX, Timestamp
from magnetar.metasync.units import LOCAL_DELETIONS, ResourceType
from tests.unit.metasync.pulsar_events import PULSAR_EVENTS

STAMP = Timestamp(7, 1, "ewr")
EVENT = MetadataChangeEvent(
    EventType.MODIFIED,
    Resource(ResourceType.NAMESPACES, "acme/orders"),
    "ewr",
    8,
    Record(ResourceType.NAMESPACES, edits={"/message_ttl_in_seconds": Edit(STAMP, 60)}),
)


def test_an_event_has_the_fields_of_the_proposal() -> None:
    assert json.loads(EVENT.encode()) == {
        "version": 1,
        "eventType": "Modified",
        "resourceType": "Namespaces",
        "resourceName": "acme/orders",
        "sourceCluster": "ewr",
        "updateTime": 8,
        "data": {"edits": {"/message_ttl_in_seconds": [60, 7, 1, "ewr"]}},
    }
    assert MetadataChangeEvent.decode(EVENT.encode()) == EVENT


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "format version 2, this broker reads 1: upgrade it"),
        ({"version": "1"}, "a member of MetadataChangeEvent is missing or has a wrong type"),
        ({"eventType": "Renamed"}, "'Renamed' is not a valid EventType"),
        ({"resourceType": "Clusters"}, "'Clusters' is not a valid ResourceType"),
        ({"resourceName": "acme"}, "invalid namespace name"),
        ({"resourceName": "acme/orders/../../x"}, "invalid namespace name"),
        ({"resourceType": "Tenants", "resourceName": "a/b"}, "invalid tenant name"),
        ({"resourceType": "Topics", "resourceName": "t"}, "is not a full name"),
        ({"sourceCluster": ""}, "a member of MetadataChangeEvent is missing"),
        ({"updateTime": None}, "a member of MetadataChangeEvent is missing"),
        ({"data": {}}, "a record of edits must have the member edits"),
        ({"data": {"edits": {"x": [1, 7, 1, "ewr"]}}}, "'x' is not a JSON pointer"),
        ({"data": {"edits": {"/x": 1}}}, "the edit of /x must have a value and a timestamp"),
        ({"data": {"edits": {"/x": [1, 7]}}}, "is not the timestamp of an edit"),
        ({"data": {"edits": {"/x": [1, 7, 1, "ewr", 5]}}}, "is not the timestamp of an edit"),
        ({"data": {"edits": {"/x": [1, 7, 1, "ewr", [7, 1, ""]]}}}, "is not the timestamp of an edit"),
        ({"data": {"edits": {}, "created": 5}}, "is not the timestamp of an edit"),
        ({"data": {"edits": {}, "deleted": [7, 1, "ewr"], "replaced": 5}}, "is not the list of the edits"),
        ({"data": {"edits": {}, "deleted": [7, 1, "ewr"], "replaced": [[7, 1, "a"]] * 101}}, "at most 100"),
        ({"data": {"edits": {}, "deleted": [7, 1, "ewr"], "replaced": [5]}}, "is not the timestamp of an edit"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    data = json.dumps({**json.loads(EVENT.encode()), **change}).encode()
    with pytest.raises(EventError) as refused:
        MetadataChangeEvent.decode(data)
    assert reason in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b" " * (EVENT_BYTES_MAX + 1)])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(EventError):
        MetadataChangeEvent.decode(data)


@pytest.mark.parametrize("event", PULSAR_EVENTS)
def test_an_event_of_apache_pulsar_is_refused_by_its_name(event: bytes) -> None:
    with pytest.raises(
        EventError, match=r"^a MetadataEvent of Apache Pulsar, .* metadataSyncEventTopic .* import --watch$"
    ):
        MetadataChangeEvent.decode(event)


@pytest.mark.parametrize(
    "resource",
    [
        Resource(ResourceType.TENANTS, "acme"),
        Resource(ResourceType.NAMESPACES, "acme/orders"),
        Resource(ResourceType.TOPICS, "persistent://acme/orders/a b%"),
        Resource(ResourceType.TOPIC_POLICIES, "persistent://acme/orders/ä+b"),
    ],
)
def test_each_resource_is_found_at_its_path(resource: Resource) -> None:
    assert resource_at(resource.path) == resource == Resource.parse(resource.kind, resource.name)


def test_other_paths_have_no_resource() -> None:
    for path in ("/admin/clusters/ewr", "/managed-ledgers/acme/orders/persistent/a", "/admin/policies", "/"):
        assert resource_at(path) is None
    with pytest.raises(InvalidTopicNameError):
        Resource.parse(ResourceType.TOPICS, "persistent://acme/orders/")


def with_edits(count: int, value: object = 1) -> Record:
    return Record(ResourceType.NAMESPACES, STAMP, edits={f"/properties/{n}": Edit(STAMP, value) for n in range(count)})


@pytest.mark.parametrize("record", [with_edits(2 * EVENT_EDITS_MAX + 1), with_edits(5, "x" * (EVENT_BYTES_MAX // 2))])
def test_many_or_large_edits_are_divided_among_events(record: Record) -> None:
    whole = MetadataChangeEvent(EventType.CREATED, EVENT.resource, "ewr", 8, record)
    first, *others = [MetadataChangeEvent.decode(part) for part in whole.parts()]
    assert first.type is EventType.CREATED
    assert {each.type for each in others} == {EventType.MODIFIED}
    merged = first.record
    for each in others:
        assert each.record.created is None
        merged = merged.merge(each.record)
    assert merged == record


def test_the_first_part_has_what_counts_only_at_the_creation() -> None:
    large = {unit: Edit(STAMP, "x" * (EVENT_BYTES_MAX // 2)) for unit in ("/bundles", "/properties/a")}
    own = {unit: Edit(STAMP, ["ewr"]) for unit in OF_EACH_CLUSTER[ResourceType.NAMESPACES]}
    whole = MetadataChangeEvent(
        EventType.CREATED, EVENT.resource, "ewr", 8, Record(ResourceType.NAMESPACES, STAMP, edits=large | own)
    )
    first, *others = [MetadataChangeEvent.decode(part).record for part in whole.parts()]
    assert first.created == STAMP
    assert first.edits.keys() >= own.keys()
    assert not any(own.keys() & each.edits.keys() for each in others)


def test_the_parts_of_a_snapshot_belong_to_it() -> None:
    whole = MetadataChangeEvent(EventType.SNAPSHOT, EVENT.resource, "ewr", 8, with_edits(EVENT_EDITS_MAX + 1))
    assert [MetadataChangeEvent.decode(part).type for part in whole.parts()] == [EventType.SNAPSHOT] * 2


def test_an_event_with_too_many_edits_is_refused() -> None:
    whole = MetadataChangeEvent(EventType.CREATED, EVENT.resource, "ewr", 8, with_edits(EVENT_EDITS_MAX + 1))
    with pytest.raises(EventError, match=r"an event with 501 edits, at most 500 .*maxMetadataEventSize"):
        MetadataChangeEvent.decode(whole.encode())


@pytest.mark.parametrize("kind", LOCAL_DELETIONS)
def test_a_deletion_of_what_each_cluster_deletes_itself_is_refused(kind: ResourceType) -> None:
    resource = Resource(kind, "persistent://acme/orders/a")
    deletion = MetadataChangeEvent(EventType.DELETED, resource, "ewr", 8, Record(kind, deleted=STAMP))
    with pytest.raises(
        EventError, match=rf"a deletion of {kind.value} persistent://acme/orders/a: each cluster deletes"
    ):
        MetadataChangeEvent.decode(deletion.encode())


def test_an_edit_that_fits_in_no_event_is_refused() -> None:
    whole = MetadataChangeEvent(EventType.CREATED, EVENT.resource, "ewr", 8, with_edits(1, "x" * EVENT_BYTES_MAX))
    with pytest.raises(EventError, match=r"an edit of acme/orders with 10.* bytes, at most .*maxMetadataEventSize"):
        list(whole.parts())


def test_the_largest_edit_fits_in_a_snapshot_with_the_longest_history() -> None:
    cluster = "c" * CLUSTER_NAME_LENGTH_MAX
    longest = Timestamp(TIME_MS_MAX, COUNTER_MAX, cluster)
    size = EVENT_BYTES_MAX - RECORD_HEAD_BYTES_MAX - 1_500
    edits = {"/properties/a": Edit(longest, "x" * size, longest)}
    modified = MetadataChangeEvent(
        EventType.MODIFIED, EVENT.resource, cluster, TIME_MS_MAX, Record(ResourceType.NAMESPACES, edits=edits)
    )
    (data,) = modified.parts()
    assert len(data) > EVENT_BYTES_MAX - RECORD_HEAD_BYTES_MAX - 1_000
    record = Record(ResourceType.NAMESPACES, longest, longest, edits, (longest,) * REPLACED_MAX)
    (snapshot,) = replace(modified, type=EventType.SNAPSHOT, record=record).parts()
    assert len(snapshot) > len(data)
