"""The metadata synchronizer in a broker."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName
from magnetar.broker.loop.slices import at_once
from magnetar.broker.metadata_sync import MetadataSync
from magnetar.broker.settings.config import BrokerConfig
from magnetar.client.options import PeerAddress
from magnetar.metadata.policies import ClusterData, Policies, TenantInfo
from magnetar.metasync.events import EVENT_BYTES_MAX, EventType, MetadataChangeEvent
from magnetar.metasync.local.scope import local_changes
from magnetar.metasync.places import Resource
from magnetar.metasync.records import Edit, Record
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.unit.metasync.test_store import RULES, Cluster

if TYPE_CHECKING:
    from magnetar.admin.models.metadata_sync import MetadataSyncStatus

NAMES = ["ewr", "jfk", "lga"]


@pytest.fixture
def ewr() -> Cluster:
    cluster = Cluster("ewr")
    for name in NAMES:
        cluster.resources.clusters.create(name, ClusterData())
    cluster.resources.tenants.create(RULES.own_namespace.tenant, TenantInfo(allowedClusters=NAMES))
    cluster.resources.namespaces.create(RULES.own_namespace, Policies(replication_clusters=NAMES))
    return cluster


@pytest.fixture
def synchronizer(ewr: Cluster) -> MetadataSync:
    environment: Any = SimpleNamespace(
        config=BrokerConfig(clusterName="ewr", metadataSyncEventTopic=f"persistent://{RULES.own_namespace}/events"),
        metadata=ewr.store,
        resources=ewr.resources,
        clock=ewr,
    )
    return MetadataSync(environment, ewr.store, PeerAddress("pulsar://localhost:6650"))


def status(synchronizer: MetadataSync) -> MetadataSyncStatus:
    return at_once(synchronizer.status())


def test_the_namespace_of_the_event_topic_leaves_a_cluster_whose_record_is_deleted(
    ewr: Cluster, synchronizer: MetadataSync
) -> None:
    assert synchronizer.namespace == RULES.own_namespace
    ewr.resources.clusters.delete("jfk")
    policies, tenant = ewr.resources.namespaces.get(RULES.own_namespace), ewr.resources.tenants.get("pulsar")
    assert policies is not None
    assert tenant is not None
    assert policies.replication_clusters == tenant.allowedClusters == ["ewr", "lga"]


def test_the_ages_are_those_of_the_registered_clusters(ewr: Cluster, synchronizer: MetadataSync) -> None:
    """A cluster that was removed would raise an alarm forever."""
    resource = Resource(ResourceType.TENANTS, "acme")
    ewr.receive(MetadataChangeEvent(EventType.SNAPSHOT, resource, "jfk", 999_000, Record(resource.kind)))
    assert status(synchronizer).newest_event_age_seconds == {"ewr": None, "jfk": 1.0, "lga": None}
    ewr.resources.clusters.delete("jfk")
    assert status(synchronizer).newest_event_age_seconds == {"ewr": None, "lga": None}


def test_the_largest_event_of_a_snapshot_is_previewed(synchronizer: MetadataSync) -> None:
    """The client sends it with other spaces than the synchronizer."""
    roles = ["r" * 99] * ((EVENT_BYTES_MAX - 1_000) // 102)
    edits = {"/adminRoles": Edit(Timestamp(1, 0, "jfk"), roles)}
    record = Record(ResourceType.TENANTS, Timestamp(1, 0, "jfk"), edits=edits)
    event = MetadataChangeEvent(EventType.SNAPSHOT, Resource(ResourceType.TENANTS, "acme"), "jfk", 1, record)
    assert EVENT_BYTES_MAX - 2_000 < len(event.encode()) <= EVENT_BYTES_MAX
    assert [each.field for each in synchronizer.preview(json.loads(event.encode()))] == ["", "adminRoles"]


def test_what_is_in_a_local_namespace_is_published_with_it(ewr: Cluster, synchronizer: MetadataSync) -> None:
    with local_changes():
        ewr.resources.tenants.create("acme", TenantInfo())
    ewr.resources.namespaces.create(NamespaceName("acme", "orders"), Policies())
    assert ewr.events() == []
    with pytest.raises(AdminError, match="nothing of message_ttl_in_seconds of acme is local"):
        asyncio.run(synchronizer.remove_local("acme", "message_ttl_in_seconds"))
    asyncio.run(synchronizer.remove_local("acme", ""))
    assert [event.resource.name for event in ewr.events()] == ["acme", "acme/orders"]
