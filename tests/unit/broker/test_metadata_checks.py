"""Values of other clusters are those that an admin call accepts."""

from __future__ import annotations

from operator import methodcaller

import pytest

from magnetar.base.limits import PARTITIONS_MAX
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.metadata_checks import check_fields
from magnetar.metadata.policies import BundlesData, PartitionedTopicMetadata, Policies
from magnetar.metadata.policy.values import BacklogQuota, OffloadPolicies, RetentionPolicies
from magnetar.metasync.events import EventType, MetadataChangeEvent
from magnetar.metasync.local.preview import preview
from magnetar.metasync.places import Resource
from magnetar.metasync.records import Edit, Record
from magnetar.metasync.store import SynchronizedStore
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_store import RULES, Cluster

ORDERS = NamespaceName("acme", "orders")
TOPIC = TopicName.parse("persistent://acme/orders/t")
RESOURCES = {
    ResourceType.NAMESPACES: Resource(ResourceType.NAMESPACES, str(ORDERS)),
    ResourceType.TOPICS: Resource(ResourceType.TOPICS, str(TOPIC)),
    ResourceType.TOPIC_POLICIES: Resource(ResourceType.TOPIC_POLICIES, str(TOPIC)),
}
BOUNDS = BundlesData.of(4).boundaries


@pytest.fixture
def jfk() -> Cluster:
    cluster = Cluster("jfk")
    cluster.store = SynchronizedStore(cluster.inner, "jfk", cluster, RULES, check_fields)
    return cluster


@pytest.fixture
def ewr(jfk: Cluster) -> Cluster:
    cluster = Cluster("ewr")
    cluster.resources.namespaces.create(ORDERS, Policies(bundles=BundlesData.of(4)))
    cluster.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=2))
    jfk.receive(*cluster.events())
    return cluster


@pytest.mark.parametrize(
    ("kind", "unit", "value", "reason"),
    [
        (ResourceType.TOPICS, "/partitions", 10**15, f"a topic has 1 to {PARTITIONS_MAX}"),
        (ResourceType.NAMESPACES, "/message_ttl_in_seconds", -5, "message TTL must >= 0"),
        (ResourceType.NAMESPACES, "/max_producers_per_topic", -1, "must be 0 or more"),
        (
            ResourceType.NAMESPACES,
            "/retention_policies",
            {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5},
            "Invalid retention policy",
        ),
        (ResourceType.NAMESPACES, "/bundles", {"boundaries": ["x", "y"], "numBundles": 1}, "is not a number"),
        (ResourceType.NAMESPACES, "/bundles", {"boundaries": BOUNDS[::-1], "numBundles": 4}, "other boundaries"),
        (ResourceType.NAMESPACES, "/bundles", {"boundaries": BOUNDS, "numBundles": 7}, "other boundaries"),
        (ResourceType.TOPIC_POLICIES, "/messageTTLInSeconds", -5, "Invalid value for message TTL"),
    ],
)
def test_a_value_that_an_admin_call_would_refuse_is_refused(
    ewr: Cluster, jfk: Cluster, kind: ResourceType, unit: str, value: object, reason: str
) -> None:
    """Messages would expire at once, partitions would fill the disk, and so on; all clusters would have the value."""
    known, timestamp = jfk.documents(), Timestamp(2_000_000, 0, "ewr")
    record = Record(kind, timestamp, None, {unit: Edit(timestamp, value)})
    event = MetadataChangeEvent(EventType.MODIFIED, RESOURCES[kind], "ewr", 2_000_000, record)
    with pytest.raises(ValueError, match=reason):
        jfk.receive(event)
    with pytest.raises(ValueError, match=reason):
        preview(jfk.store.holdings, event)
    assert jfk.documents() == known == ewr.documents()


def test_an_edit_is_not_refused_because_of_what_was_stored_before(ewr: Cluster, jfk: Cluster) -> None:
    """Fields that two clusters changed at the same time may contradict each other, and older values may be invalid."""
    quota = BacklogQuota(limitSize=9 << 20, policy="producer_exception")
    jfk.resources.namespaces.update(
        ORDERS, methodcaller("model_copy", update={"backlog_quota_map": {"destination_storage": quota}})
    )
    jfk.resources.namespaces.update(ORDERS, methodcaller("model_copy", update={"max_producers_per_topic": -1}))
    retention = RetentionPolicies(retentionTimeInMinutes=1, retentionSizeInMB=1)
    offload = OffloadPolicies(managedLedgerOffloadThresholdInBytes=5)
    changed = {"retention_policies": retention, "offload_policies": offload, "offload_threshold": 5}
    ewr.resources.namespaces.update(ORDERS, methodcaller("model_copy", update=changed))
    assert jfk.receive(ewr.events()[-1]) == [True]
    policies = jfk.resources.namespaces.get(ORDERS)
    assert policies is not None
    assert (policies.retention_policies, policies.max_producers_per_topic) == (retention, -1)
