"""Documents round-trip in Pulsar's JSON, at Pulsar's paths."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import BadVersionError, NotFoundError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.real import SystemClock
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import BundlesData, ClusterData, PartitionedTopicMetadata, Policies, TenantInfo
from magnetar.metadata.policy.values import RetentionPolicies
from magnetar.metadata.resources import Resources, managed_ledger_path
from tests.kit.stored import put

FLIGHTS = NamespaceName("nyc", "flights")

# Response of Apache Pulsar 4.0.7 for a namespace that replicates between A and B.
OBSERVED_POLICIES = """
{"auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}}, "replication_clusters":
["A", "B"], "allowed_clusters": [], "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
"backlog_quota_map": {}, "clusterDispatchRate": {}, "topicDispatchRate": {}, "subscriptionDispatchRate": {},
"replicatorDispatchRate": {}, "clusterSubscribeRate": {}, "publishMaxMessageRate": {}, "latency_stats_sample_rate": {},
"deleted": false, "encryption_required": false, "subscription_auth_mode": "None", "offload_threshold": -1,
"offload_threshold_in_seconds": -1, "schema_compatibility_strategy": "UNDEFINED", "is_allow_auto_update_schema": true,
"schema_validation_enforced": false, "subscription_types_enabled": [], "properties": {}, "migrated": false}
"""


def test_policies_are_written_as_pulsar_writes_them() -> None:
    """Defaults and the order of fields equal the recorded ones."""
    policies = Policies(replication_clusters=["A", "B"], bundles=BundlesData.of(1))
    assert json.dumps(policies.to_json()) == json.dumps(json.loads(OBSERVED_POLICIES))


@pytest.mark.parametrize(
    ("count", "boundaries"),
    [
        (1, ["0x00000000", "0xffffffff"]),
        (4, ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]),
    ],
)
def test_bundles_are_cut_as_pulsar_cuts_them(count: int, boundaries: list[str]) -> None:
    """The boundaries equal the recorded ones."""
    assert BundlesData.of(count) == BundlesData(boundaries=boundaries, numBundles=count)


def test_unknown_fields_are_kept() -> None:
    """A field of a newer release survives reading and writing."""
    assert ClusterData.from_json(b'{"later": {"a": 1}}').to_json()["later"] == {"a": 1}


def test_documents() -> None:
    """Create once, update and delete existing documents."""
    resources = Resources.over(MemoryMetadataStore(SystemClock()))
    resources.clusters.create("A", ClusterData(serviceUrl="http://a:8080"))
    with pytest.raises(BadVersionError):
        resources.clusters.create("A", ClusterData())
    with pytest.raises(NotFoundError):
        resources.clusters.update("B", lambda data: data)
    resources.clusters.update("A", lambda data: data.model_copy(update={"serviceUrl": "http://b:8080"}))
    assert resources.clusters.get("A") == ClusterData(serviceUrl="http://b:8080")
    assert resources.clusters.names() == ["A"]
    resources.clusters.delete("A")
    assert not resources.clusters.exists("A")


def test_namespace_changes_are_watched() -> None:
    """The watcher is notified of namespaces, not of tenants, and finds the new policies."""
    resources = Resources.over(MemoryMetadataStore(SystemClock()))
    heard: list[tuple[NamespaceName, Policies | None]] = []
    resources.namespaces.watch(lambda name: heard.append((name, resources.namespaces.get(name))))
    resources.tenants.create("nyc", TenantInfo(allowedClusters=["A"]))
    resources.namespaces.create(FLIGHTS, Policies())
    kept = RetentionPolicies(retentionTimeInMinutes=10, retentionSizeInMB=100)
    resources.namespaces.update(FLIGHTS, lambda policies: policies.model_copy(update={"retention_policies": kept}))
    resources.namespaces.delete(FLIGHTS)
    assert heard == [(FLIGHTS, Policies()), (FLIGHTS, Policies(retention_policies=kept)), (FLIGHTS, None)]
    assert resources.tenants.names() == ["nyc"]
    assert resources.namespaces.of_tenant("nyc") == []


def test_topics_are_those_with_a_managed_ledger() -> None:
    """Names with special characters are encoded as in Pulsar."""
    store = MemoryMetadataStore(SystemClock())
    resources = Resources.over(store)
    topic = TopicName.parse("persistent://nyc/flights/ä b")
    assert managed_ledger_path(topic) == "/managed-ledgers/nyc/flights/persistent/%C3%A4+b"
    assert not resources.topics.exists(topic)
    put(store, managed_ledger_path(topic), b"{}")
    resources.partitioned_topics.create(topic, PartitionedTopicMetadata(partitions=3))
    assert resources.topics.exists(topic)
    assert list(resources.topics.of_namespace(FLIGHTS)) == [topic]
    assert list(resources.partitioned_topics.of_namespace(FLIGHTS)) == [topic]
