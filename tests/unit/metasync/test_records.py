from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.metadata.routes.table import Route
from magnetar.metasync.records import PARTITIONS, REMOVED, ROUTE, Edit, Record
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from random import Random

NAMESPACE = ResourceType.NAMESPACES
CLUSTERS = ("ewr", "jfk", "lga")

timestamps = st.builds(Timestamp, st.integers(0, 5), st.integers(0, 2), st.sampled_from(CLUSTERS))
units = st.sampled_from(["/message_ttl_in_seconds", "/properties/a", "/properties/b"])
edits = st.builds(Edit, timestamps, st.sampled_from([REMOVED, 1, 2, "x"]), st.none() | timestamps)
parts = st.builds(Record, st.just(NAMESPACE), st.none() | timestamps, st.none(), st.dictionaries(units, edits))
replaced = st.none() | st.lists(timestamps, max_size=3).map(tuple)
deletions = st.builds(Record, st.just(NAMESPACE), st.none() | timestamps, timestamps, replaced=replaced)
records = parts | st.builds(Record.merge, parts, deletions)
"""Any parts of records, also of a faulty cluster that gives a timestamp twice."""

counts = st.dictionaries(st.just(PARTITIONS), st.builds(Edit, timestamps, st.sampled_from([REMOVED, 1, 2, 3, "x"])))
topics = st.builds(Record, st.just(ResourceType.TOPICS), st.none() | timestamps, st.none(), counts)


def text(edit: Edit) -> str:
    """Return what decides between edits with equal timestamps."""
    return json.dumps([edit.value, edit.replaced and edit.replaced.to_json()], separators=(",", ":"))


def merged(*parts: Record) -> Record:
    whole = Record(parts[0].kind)
    for part in parts:
        whole = whole.merge(part)
    return whole


@given(records, records)
def test_merging_is_commutative(one: Record, other: Record) -> None:
    assert merged(one, other) == merged(other, one)


@given(records, records, records)
def test_merging_is_associative(one: Record, other: Record, third: Record) -> None:
    assert merged(merged(one, other), third) == merged(one, merged(other, third))


@given(topics, topics, topics)
def test_merging_of_partitions_is_commutative_associative_and_idempotent(
    one: Record, other: Record, third: Record
) -> None:
    """Without deletions: events that delete a topic are refused."""
    assert merged(one, other) == merged(other, one)
    assert merged(merged(one, other), third) == merged(one, merged(other, third))
    assert merged(one, one) == one


@given(records, records)
def test_merging_is_idempotent(one: Record, other: Record) -> None:
    whole = merged(one, other)
    assert merged(whole, one) == merged(whole, other) == merged(whole, whole) == whole


@given(st.lists(records, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_merging_equals_the_naive_twin_in_any_order(parts: list[Record], random: Random) -> None:
    """The twin keeps all edits, and looks for the newest one of each unit at the end."""
    deleted = max((each.deleted for each in parts if each.deleted is not None), default=None)
    expected: dict[str, Edit] = {}
    for unit in {unit for each in parts for unit in each.edits}:
        known = [each.edits[unit] for each in parts if unit in each.edits]
        newest = max(edit.timestamp for edit in known)
        if deleted is None or deleted < newest:
            expected[unit] = max((e for e in known if e.timestamp == newest), key=text)
    random.shuffle(parts)
    whole = merged(*parts)
    assert whole.edits == expected
    assert whole.deleted == deleted
    assert whole.replaced in {each.replaced for each in parts if each.deleted == deleted}


@given(records, records)
def test_the_news_of_a_record_are_all_that_its_receiver_lacks(one: Record, other: Record) -> None:
    assert merged(one, other.news(one)) == merged(one, other)


@given(records)
def test_a_record_has_no_news_for_its_holder(one: Record) -> None:
    whole = merged(one)
    assert whole.news(whole).is_empty


@given(records)
def test_a_record_survives_json(one: Record) -> None:
    assert Record.from_json(NAMESPACE, one.to_json()) == one


def at(time_ms: int, cluster: str = "ewr", counter: int = 0) -> Timestamp:
    return Timestamp(time_ms, counter, cluster)


def test_edits_of_different_fields_are_both_kept() -> None:
    one = Record(NAMESPACE, at(1), None, {"/message_ttl_in_seconds": Edit(at(5), 60)})
    other = Record(NAMESPACE, at(1), None, {"/retention_policies": Edit(at(4, "jfk"), {"retentionSizeInMB": 1})})
    expected = {"message_ttl_in_seconds": 60, "retention_policies": {"retentionSizeInMB": 1}}
    assert merged(one, other).document() == expected


def test_of_edits_at_the_same_time_the_smaller_cluster_wins() -> None:
    """The example of PIP-136: the same policy at the same time in the regions A and B."""
    of_a = Record(NAMESPACE, at(1, "A"), None, {"/message_ttl_in_seconds": Edit(at(9, "A"), 1)})
    of_b = Record(NAMESPACE, at(1, "A"), None, {"/message_ttl_in_seconds": Edit(at(9, "B"), 2)})
    assert merged(of_a, of_b).document() == merged(of_b, of_a).document() == {"message_ttl_in_seconds": 1}


def test_a_concurrent_edit_does_not_restore_a_deleted_resource() -> None:
    known = Record(NAMESPACE, at(1), None, {"/message_ttl_in_seconds": Edit(at(1), 1)})
    deleted = Record(NAMESPACE, None, at(5, "jfk"))
    edited = Record(NAMESPACE, None, None, {"/message_ttl_in_seconds": Edit(at(7), 2)})
    assert merged(known, deleted, edited).document() is None


def test_a_resource_that_is_created_again_has_nothing_of_the_deleted_one() -> None:
    known = Record(NAMESPACE, at(1), None, {"/message_ttl_in_seconds": Edit(at(1), 1)})
    again = Record(NAMESPACE, at(9, "jfk"), at(5, "jfk"), {"/properties/a": Edit(at(9, "jfk"), "b")})
    assert merged(known, again).document() == {"properties": {"a": "b"}}


def test_partitions_only_grow() -> None:
    many = Record(ResourceType.TOPICS, at(1), None, {PARTITIONS: Edit(at(2), 8)})
    few = Record(ResourceType.TOPICS, at(1), None, {PARTITIONS: Edit(at(9, "jfk"), 4)})
    assert merged(many, few).document() == merged(few, many).document() == {"partitions": 8}


def route_edit(time_ms: int, cluster: str | None, epoch: int, at_cluster: str = "ewr") -> Record:
    value = Route(cluster, epoch).to_json()
    return Record(ResourceType.ROUTES, at(1), None, {ROUTE: Edit(at(time_ms, at_cluster), value)})


route_values = st.builds(
    lambda cluster, epoch: Route(cluster, epoch).to_json(), st.sampled_from(CLUSTERS), st.integers(1, 4)
)
route_edits = st.dictionaries(st.just(ROUTE), st.builds(Edit, timestamps, route_values | st.sampled_from([REMOVED, 1])))
route_records = st.builds(Record, st.just(ResourceType.ROUTES), st.none() | timestamps, st.none(), route_edits)


@given(route_records, route_records, route_records)
def test_merging_of_routes_is_commutative_associative_and_idempotent(one: Record, other: Record, third: Record) -> None:
    assert merged(one, other) == merged(other, one)
    assert merged(merged(one, other), third) == merged(one, merged(other, third))
    assert merged(one, one) == one


def test_of_two_routes_the_one_with_the_later_epoch_counts_whatever_the_time() -> None:
    seven, six = route_edit(2, "jfk", 7), route_edit(9, "lga", 6, "lga")
    assert merged(seven, six).document() == merged(six, seven).document() == {"route": {"cluster": "jfk", "epoch": 7}}


def test_an_epoch_that_no_later_one_could_exceed_is_refused() -> None:
    route_edit(5, "jfk", 3_600_005).check_epoch()
    with pytest.raises(ValueError, match="epoch 3600006 is more than 3600 s after its edit at 5"):
        route_edit(5, "jfk", 3_600_006).check_epoch()


def test_the_oldest_removed_units_are_forgotten() -> None:
    record = Record(NAMESPACE, at(1), None, {f"/properties/{n}": Edit(at(n), REMOVED) for n in range(1_100)})
    record.edits["/message_ttl_in_seconds"] = Edit(at(0), 5)
    record.forget()
    assert len(record.edits) == 1_001
    assert "/properties/99" not in record.edits
    assert "/properties/100" in record.edits
