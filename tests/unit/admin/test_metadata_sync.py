from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName
from magnetar.metadata.policies import ClusterData, PartitionedTopicMetadata, Policies, TenantInfo
from magnetar.metadata.policy.table import Policy
from magnetar.metasync.local.scope import is_local
from magnetar.metasync.places import Resource
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import FLIGHTS, AppTransport, FakeAdminService, FakeTopic, new_service
from tests.unit.metasync.test_store import Cluster

if TYPE_CHECKING:
    from magnetar.metadata.awaiting import Commit

LAST_EDIT = {"lastUpdatedBy", "lastUpdatedTime"}


def client_of(service: FakeAdminService) -> AdminClient:
    return AdminClient(service.admin_url, transport=AppTransport(service))


def test_the_synchronizer_is_shown_and_takes_snapshots() -> None:
    service, synchronizer = new_service(), FakeSynchronizer()
    service.metadata_sync = synchronizer
    with client_of(service) as client:
        assert client.metadata_sync.status() == {
            "eventTopic": "persistent://pulsar/metadata/events",
            "connected": False,
            "failure": "lost",
            "unpublishedEvents": 2,
            "appliedEvents": 3,
            "localValues": 1,
            "refusedEvents": 1,
            "conflicts": 4,
            "strandedTopics": 6,
            "strandedNamespaces": ["acme/orders"],
            "newestEventAgeSeconds": {"B": 1.5, "C": None},
        }
        (event,) = client.metadata_sync.refused()
        assert event == {"refusedAt": "2026-01-01T00:00:00.000Z", "reason": "not JSON", "event": "{"}
        client.metadata_sync.snapshot()
    assert synchronizer.snapshots == 1


def test_the_namespace_of_the_event_topic_does_not_keep_another_cluster_registered() -> None:
    """It is replicated to all registered clusters, and an operator cannot change that before."""
    service, synchronizer = new_service(), FakeSynchronizer()
    service.metadata_sync, synchronizer.namespace = synchronizer, FLIGHTS
    with client_of(service) as client:
        client.clusters.delete("B")
        assert client.clusters.names() == ["A"]
        with pytest.raises(AdminError, match="Cluster not empty: nyc/flights replicates to it"):
            client.clusters.delete("A")


def test_without_a_synchronizer_the_answer_names_the_setting() -> None:
    with client_of(new_service()) as client, pytest.raises(AdminError, match="set metadataSyncEventTopic") as refused:
        client.metadata_sync.status()
    assert refused.value.status == HTTPStatus.PRECONDITION_FAILED


def test_the_newest_edit_of_each_resource_is_shown_while_the_synchronizer_is_on() -> None:
    service, synchronizer = new_service(), FakeSynchronizer()
    resources, topic = service.resources, TopicName.parse("persistent://nyc/flights/parts")
    resources.partitioned_topics.create(topic, PartitionedTopicMetadata(partitions=2))
    service.metadata_sync = synchronizer
    paths = {
        Resource(ResourceType.TENANTS, "nyc"): "tenants/nyc",
        Resource(ResourceType.NAMESPACES, "nyc/flights"): "namespaces/nyc/flights",
        Resource(ResourceType.TOPICS, str(topic)): "persistent/nyc/flights/parts/partitions",
        Resource(ResourceType.TOPIC_POLICIES, str(topic)): "persistent/nyc/flights/parts/policies",
    }
    with httpx.Client(base_url="http://a", transport=AppTransport(service)) as http:
        for index, (resource, path) in enumerate(paths.items()):
            assert not LAST_EDIT & http.get(f"/admin/v2/{path}").json().keys()
            synchronizer.last_edits[resource] = Timestamp(1_000 + index, 3, "jfk")
            found = http.get(f"/admin/v2/{path}").json()
            assert (found["lastUpdatedBy"], found["lastUpdatedTime"]) == ("jfk", 1_000 + index)
        service.metadata_sync = None
        assert not any(LAST_EDIT & http.get(f"/admin/v2/{path}").json().keys() for path in paths.values())


def test_the_newest_edit_does_not_come_from_clients() -> None:
    service = new_service()
    edit = {"lastUpdatedBy": "client", "lastUpdatedTime": 5}
    with httpx.Client(base_url="http://a", transport=AppTransport(service)) as http:
        info = {"adminRoles": ["r"], "allowedClusters": ["A"], **edit}
        assert http.put("/admin/v2/tenants/acme", json=info).is_success
        assert http.post("/admin/v2/tenants/acme", json=info).is_success
        assert http.put("/admin/v2/namespaces/acme/orders", json={"replication_clusters": ["A"], **edit}).is_success
        assert http.get("/admin/v2/tenants/acme").json() == {"adminRoles": ["r"], "allowedClusters": ["A"]}
        assert not LAST_EDIT & http.get("/admin/v2/namespaces/acme/orders").json().keys()


def test_local_values_are_shown_and_removed() -> None:
    service, synchronizer = new_service(), FakeSynchronizer()
    service.metadata_sync = synchronizer
    with client_of(service) as client:
        assert client.metadata_sync.local() == [
            {
                "resourceType": "Namespaces",
                "resourceName": "nyc/flights",
                "field": "message_ttl_in_seconds",
                "since": "2026-01-01T00:00:00.000Z",
                "reason": "edit",
                "here": 5,
            }
        ]
        client.metadata_sync.remove_local("nyc/flights", "message_ttl_in_seconds")
        client.metadata_sync.remove_local("nyc/flights")
        with pytest.raises(AdminError, match="name a tenant, namespace or topic") as refused:
            client.metadata_sync.remove_local("")
    assert refused.value.status == HTTPStatus.BAD_REQUEST
    assert synchronizer.removed == [("nyc/flights", "message_ttl_in_seconds"), ("nyc/flights", "")]


def test_the_changes_of_a_request_with_the_header_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    service, scopes = new_service(), list[bool]()
    service.metadata_sync = FakeSynchronizer()
    tenants = service.resources.tenants
    create = tenants.create

    def create_noting_the_scope(name: str, info: TenantInfo) -> Commit:
        scopes.append(is_local())
        return create(name, info)

    monkeypatch.setattr(tenants, "create", create_noting_the_scope)
    with client_of(service) as client:
        client.tenants.create("everywhere", ["A"])
        client.keep_changes_local()
        client.tenants.create("here", ["A"])
    with client_of(service) as client:
        client.tenants.create("again", ["A"])
    assert scopes == [False, True, False]


def test_a_policy_that_gets_its_local_value_is_that_of_all_clusters() -> None:
    cluster = Cluster("A")
    for name in ("A", "B"):
        cluster.resources.clusters.create(name, ClusterData())
    cluster.resources.tenants.create("nyc", TenantInfo(allowedClusters=["A", "B"]))
    cluster.resources.namespaces.create(FLIGHTS, Policies(replication_clusters=["A", "B"]))
    service, topic = FakeAdminService(cluster.resources), TopicName.parse("persistent://nyc/flights/t")
    service.metadata_sync, service.topics.held[topic] = FakeSynchronizer(), FakeTopic([])
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": 6, "ratePeriodInSecond": 1}
    with client_of(service) as here, client_of(service) as everywhere:
        everywhere.policies.set(topic, Policy.MAX_PRODUCERS, 5)
        count = len(cluster.events())
        here.keep_changes_local()
        for client in (here, everywhere):
            for owner in (FLIGHTS, topic):
                client.policies.set(owner, Policy.MESSAGE_TTL, 60)
                client.policies.set(owner, Policy.DISPATCH_RATE, rate)
                client.policies.set_backlog_quota(owner, "message_age", "producer_exception", limit_time=5)
            client.topic_documents.set_dispatch_rate(topic, "sub", rate)
            marked = [cluster.store.holdings.held(each).marks for each in cluster.store.holdings.marked()]
            assert sorted(map(len, marked)) == ([3, 4] if client is here else [])
        assert len(cluster.events()[count:]) == 7


@pytest.mark.parametrize(
    ("is_on", "value", "status", "reason"),
    [
        (True, "all", HTTPStatus.BAD_REQUEST, "Magnetar-Scope: all is not a scope; the only one is local"),
        (False, "local", HTTPStatus.PRECONDITION_FAILED, "Magnetar-Scope: the metadata synchronizer is off"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(is_on: bool, value: str, status: HTTPStatus, reason: str) -> None:
    service = new_service()
    service.metadata_sync = FakeSynchronizer() if is_on else None
    with httpx.Client(transport=AppTransport(service)) as http:
        answer = http.put(f"{service.admin_url}/admin/v2/tenants/t", json={}, headers={"Magnetar-Scope": value})
    assert answer.status_code == status
    assert answer.json()["reason"].startswith(reason)
    assert not service.resources.tenants.exists("t")


def test_the_history_of_a_resource_and_its_undo() -> None:
    service = new_service()
    service.metadata_sync = FakeSynchronizer()
    with client_of(service) as client:
        created, edited = client.metadata_sync.history("nyc/flights")
        assert (created["change"], created["fields"]) == ("Created", [])
        assert edited["fields"][0] == {
            "field": "message_ttl_in_seconds",
            "after": 60,
            "state": "lost",
            "lostTo": "1006.0.B",
        }
        with pytest.raises(AdminError, match="later edits changed") as refused:
            client.metadata_sync.undo("nyc/flights")
        assert refused.value.status == HTTPStatus.CONFLICT
        undone = client.metadata_sync.undo("persistent://nyc/flights/t", "1005.0.A", force=True)
        assert (undone["resource"], undone["edit"]) == ("persistent://nyc/flights/t", "1005.0.A")
