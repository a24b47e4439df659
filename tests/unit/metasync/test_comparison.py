from __future__ import annotations

from typing import Any

from magnetar.metasync.comparison import (
    BELONGS_TO_EACH_CLUSTER,
    EXISTENCE,
    Difference,
    differences,
    renamed,
)
from magnetar.metasync.places import Resource
from magnetar.metasync.units import Document, ResourceType

ACME = Resource(ResourceType.TENANTS, "acme")
ORDERS = Resource(ResourceType.NAMESPACES, "acme/orders")
PARTS = Resource(ResourceType.TOPICS, "persistent://acme/orders/parts")
POLICIES = Resource(ResourceType.TOPIC_POLICIES, "persistent://acme/orders/parts")


Metadata = dict[Resource, Document]


def compared(**clusters: Metadata) -> list[Difference]:
    return list(differences(clusters))


def of_fields(resource: Resource, a: Document, b: Document) -> dict[str, dict[str, Any]]:
    return {each.unit: dict(each.values) for each in compared(a={resource: a}, b={resource: b})}


def test_equal_clusters_have_no_differences() -> None:
    found: Metadata = {ACME: {"adminRoles": ["r"]}, ORDERS: {"message_ttl_in_seconds": 60}, PARTS: {"partitions": 2}}
    assert compared(a=found, b=found, c=dict(found)) == []
    assert compared(a={}, b={}) == []


def test_a_resource_that_a_cluster_lacks_is_one_difference() -> None:
    (found,) = compared(a={ORDERS: {"message_ttl_in_seconds": 60}}, b={})
    assert (found.resource, found.unit, found.allowed) == (ORDERS, EXISTENCE, None)
    assert found.values == {"a": True, "b": False}


def test_the_clusters_that_have_a_resource_are_compared_although_another_one_lacks_it() -> None:
    found = compared(a={PARTS: {"partitions": 2}}, b={}, c={PARTS: {"partitions": 3}})
    assert [(each.unit, dict(each.values)) for each in found] == [
        (EXISTENCE, {"a": True, "b": False, "c": True}),
        ("/partitions", {"a": 2, "c": 3}),
    ]


def test_fields_and_keys_of_fields_differ_separately() -> None:
    quota = {"limitSize": 1, "limitTime": -1, "policy": "producer_exception"}
    found = of_fields(
        ORDERS,
        {"message_ttl_in_seconds": 60, "backlog_quota_map": {"destination_storage": quota, "message_age": quota}},
        {"message_ttl_in_seconds": 90, "backlog_quota_map": {"message_age": quota}},
    )
    assert set(found) == {"/message_ttl_in_seconds", "/backlog_quota_map/destination_storage"}
    assert found["/message_ttl_in_seconds"] == {"a": 60, "b": 90}
    assert found["/backlog_quota_map/destination_storage"]["b"] is None


def test_defaults_nulls_and_absent_fields_are_equal() -> None:
    of_pulsar = {"deleted": False, "is_allow_auto_update_schema": None, "offload_threshold": -1, "persistence": None}
    assert of_fields(ORDERS, of_pulsar, {}) == {}
    assert of_fields(PARTS, {"partitions": 2, "deleted": False, "properties": {}}, {"partitions": 2}) == {}
    retention = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 7}
    assert of_fields(ORDERS, {"retention_policies": retention}, {"retention_policies": dict(retention)}) == {}


def test_the_order_of_roles_has_no_meaning_and_that_of_other_lists_does() -> None:
    assert of_fields(ACME, {"adminRoles": ["r", "s"]}, {"adminRoles": ["s", "r"]}) == {}
    assert of_fields(ORDERS, {"other": [1, 2]}, {"other": [2, 1]}) == {"/other": {"a": [1, 2], "b": [2, 1]}}


def test_topic_policies_that_a_cluster_lacks_have_no_fields() -> None:
    assert compared(a={POLICIES: {}}, b={}) == []
    (found,) = compared(a={POLICIES: {"maxProducerPerTopic": 3}}, b={})
    assert (found.unit, found.values) == ("/maxProducerPerTopic", {"a": 3, "b": None})


def test_fields_that_belong_to_each_cluster_may_differ() -> None:
    (found,) = compared(a={ORDERS: {"allowed_clusters": ["a"]}}, b={ORDERS: {"allowed_clusters": ["b"]}})
    assert found.allowed == BELONGS_TO_EACH_CLUSTER
    (found,) = compared(a={ORDERS: {"replication_clusters": ["a"]}}, b={ORDERS: {"replication_clusters": ["b"]}})
    assert found.allowed == BELONGS_TO_EACH_CLUSTER


def test_unknown_fields_are_compared_and_documents_that_cannot_be_read_as_well() -> None:
    assert of_fields(ORDERS, {"of_tomorrow": 1}, {"of_tomorrow": 1}) == {}
    assert set(of_fields(ORDERS, {"of_tomorrow": 1}, {})) == {"/of_tomorrow"}
    assert set(of_fields(ORDERS, {"message_ttl_in_seconds": "long"}, {})) == {"/message_ttl_in_seconds"}


def test_the_newest_edit_is_no_difference() -> None:
    assert of_fields(ACME, {"lastUpdatedBy": "a", "lastUpdatedTime": 1}, {}) == {}


def test_the_resources_are_in_the_order_of_their_kinds_and_names() -> None:
    other = Resource(ResourceType.TENANTS, "beta")
    found = compared(a={PARTS: {"partitions": 1}, ORDERS: {}, other: {}, ACME: {}}, b={})
    assert [each.resource for each in found] == [ACME, other, ORDERS, PARTS]


def test_a_copy_under_another_name_can_be_compared() -> None:
    rate = {"dispatchThrottlingRateInMsg": 5}
    of_pulsar: Metadata = {
        ACME: {"allowedClusters": ["legacy", "lga"]},
        ORDERS: {"topicDispatchRate": {"legacy": rate}, "replication_clusters": ["legacy"]},
    }
    copy: Metadata = {
        ACME: {"allowedClusters": ["ewr", "lga"]},
        ORDERS: {"topicDispatchRate": {"ewr": rate}, "replication_clusters": ["ewr"]},
    }
    assert compared(a=renamed(of_pulsar, {"legacy": "ewr"}), b=copy) == []
    assert compared(a=of_pulsar, b=copy) != []
