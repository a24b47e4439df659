"""The metadata of a cluster are read completely, from Magnetar and from Apache Pulsar."""

from __future__ import annotations

import json

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.cluster_metadata.document import ClusterMetadata, OtherResource, Selection
from magnetar.admin.cluster_metadata.reading import read_metadata
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.metadata.policy.table import Policy
from magnetar.metadata.policy.values import DispatchRate
from magnetar.metasync.places import Resource
from magnetar.metasync.units import ResourceType
from tests.unit.admin.fake_clusters import MagnetarTransport, PulsarTransport, client_of
from tests.unit.admin.fake_service import FLIGHTS, FakeAdminService, FakeSubscription, FakeTopic, new_service

OBS = TopicName.parse("persistent://nyc/flights/obs")
PARTS = TopicName.parse("persistent://nyc/flights/parts")
CHANGES = TopicName.parse("persistent://nyc/flights/__change_events")
RATE = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": 0}
STORED_RATE = {**RATE, "relativeToPublishRate": False, "ratePeriodInSecond": 0}
SCHEMA = {"type": "STRING", "schema": "", "properties": {"owner": "ops"}}


@pytest.fixture
def service() -> FakeAdminService:
    found = new_service()
    found.topics.held[CHANGES] = FakeTopic()
    client = client_of(found)
    client.topics.create_partitioned(PARTS, 3)
    client.properties.update(PARTS, {"team": "data"})
    properties = {"team": "ops", "pulsar.topic.epoch": "1"}
    found.topics.held[OBS] = FakeTopic(subscriptions={"s": FakeSubscription(EARLIEST)}, properties=properties)
    client.policies.set(PARTS, Policy.MESSAGE_TTL, 60)
    client.policies.set_backlog_quota(PARTS, "message_age", "producer_exception", limit_time=9)
    client.topic_documents.set_dispatch_rate(OBS, "s", RATE)
    client.topic_documents.set_clusters(OBS, ["A"])
    client.placement.set_anti_affinity_group(FLIGHTS, "g")
    client.placement.set_bookie_affinity_group(FLIGHTS, {"bookkeeperAffinityGroupPrimary": "p"})
    client.schemas.upload(PARTS, SCHEMA)
    return found


def topic_policies(found: ClusterMetadata, topic: TopicName) -> object:
    return found.resources.get(Resource(ResourceType.TOPIC_POLICIES, str(topic)))


@pytest.mark.parametrize("is_pulsar", [False, True])
def test_everything_is_read(service: FakeAdminService, is_pulsar: bool) -> None:
    found = read_metadata(client_of(service, is_pulsar=is_pulsar))
    assert (found.cluster, found.is_magnetar, sorted(found.clusters)) == ("A", not is_pulsar, ["A", "B"])
    tenant, namespace = Resource(ResourceType.TENANTS, "nyc"), Resource(ResourceType.NAMESPACES, "nyc/flights")
    assert found.resources[tenant] == {"adminRoles": [], "allowedClusters": ["A", "B"]}
    assert found.resources[namespace]["replication_clusters"] == ["A", "B"]
    assert found.resources[Resource(ResourceType.TOPICS, str(PARTS))] == {
        "partitions": 3,
        "properties": {"team": "data"},
    }
    assert found.properties == {OBS: {"team": "ops"}}
    assert found.placements == {
        FLIGHTS: {"namespaceAntiAffinityGroup": "g", "bookieAffinityGroup": {"bookkeeperAffinityGroupPrimary": "p"}}
    }
    quota = {"limit": -1, "limitSize": -1, "limitTime": 9, "policy": "producer_exception"}
    assert topic_policies(found, PARTS) == {"backLogQuotaMap": {"message_age": quota}, "messageTTLInSeconds": 60}
    assert topic_policies(found, OBS) == {
        "replicationClusters": ["A"],
        "subscriptionPolicies": {"s": {"dispatchRate": STORED_RATE}},
    }
    assert [(each["type"], each["properties"]) for each in found.schemas[PARTS]] == [("STRING", {"owner": "ops"})]
    assert CHANGES not in found.schemas
    assert json.dumps(list(found.resources.values()))


def test_without_the_topic_of_their_policies_topics_have_none(service: FakeAdminService) -> None:
    del service.topics.held[CHANGES]
    found = read_metadata(client_of(service, is_pulsar=True))
    assert {each.kind for each in found.resources} == {
        ResourceType.TENANTS,
        ResourceType.NAMESPACES,
        ResourceType.TOPICS,
    }


def test_only_what_is_selected_is_read(service: FakeAdminService) -> None:
    client = client_of(service)
    client.tenants.create("pulsar", ["A"])
    client.tenants.create("other", ["A"])
    client.namespaces.create(NamespaceName("other", "n"))
    client.namespaces.create(NamespaceName("nyc", "empty"))

    def names(*, tenants: tuple[str, ...] = (), namespaces: tuple[NamespaceName, ...] = ()) -> list[str]:
        found = read_metadata(client, Selection(tenants, namespaces))
        kinds = (ResourceType.TENANTS, ResourceType.NAMESPACES)
        return sorted(each.name for each in found.resources if each.kind in kinds)

    assert names() == ["nyc", "nyc/empty", "nyc/flights", "other", "other/n"]
    assert names(tenants=("other",)) == ["other", "other/n"]
    assert names(namespaces=(NamespaceName("nyc", "empty"),)) == ["nyc", "nyc/empty"]
    assert names(tenants=("other", "pulsar"), namespaces=(FLIGHTS,)) == ["nyc", "nyc/flights", "other", "other/n"]


def test_progress_is_reported(service: FakeAdminService) -> None:
    told: list[tuple[str, int, int]] = []
    read_metadata(client_of(service), report=lambda *each: told.append(each))
    assert told == [("namespaces", 1, 1), ("topics", 1, 2), ("topics", 2, 2)]


def test_the_former_name_of_the_dispatch_rate_is_read_as_the_new_one(service: FakeAdminService) -> None:
    former, rate = {"clusterDispatchRate": {"A": {"r": 1}, "B": {"r": 2}}}, DispatchRate(ratePeriodInSecond=3)
    changed = {**former, "topicDispatchRate": {"A": rate}}
    service.resources.namespaces.update(FLIGHTS, lambda old: old.model_copy(update=changed))
    document = read_metadata(client_of(service)).resources[Resource(ResourceType.NAMESPACES, str(FLIGHTS))]
    assert document["topicDispatchRate"] == {"A": rate.to_json(), "B": {"r": 2}}
    assert "clusterDispatchRate" not in document


def test_a_topic_that_cannot_be_loaded_is_noted(service: FakeAdminService) -> None:
    class Failing(PulsarTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/obs/subscriptions"):
                return httpx.Response(500, json={"reason": "cannot be opened"})
            return super().handle_request(request)

    found = read_metadata(AdminClient(service.admin_url, transport=Failing(service)))
    assert topic_policies(found, OBS) == {"replicationClusters": ["A"]}
    detail = "the source cannot list them: cannot be opened"
    assert found.others == [OtherResource("subscriptions of a topic", str(OBS), detail)]


def answering(service: FakeAdminService, path_end: str, status: int, reason: str) -> AdminClient:
    class Other(MagnetarTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith(path_end):
                return httpx.Response(status, json={"reason": reason})
            return super().handle_request(request)

    return AdminClient(service.admin_url, transport=Other(service))


def test_a_namespace_that_is_deleted_meanwhile_is_left_out(service: FakeAdminService) -> None:
    client = answering(service, "/persistent/nyc/flights/partitioned", 404, "Namespace does not exist")
    assert {each.kind for each in read_metadata(client).resources} == {ResourceType.TENANTS}


def test_a_topic_that_the_cluster_does_not_serve_is_noted(service: FakeAdminService) -> None:
    client = answering(service, "/flights/obs/partitions", 412, "nyc/flights is not served here")
    found = read_metadata(client)
    assert topic_policies(found, OBS) is None
    assert topic_policies(found, PARTS) is not None
    kind = "topic of a namespace that the cluster does not serve"
    assert found.others == [OtherResource(kind, str(OBS), "nyc/flights is not served here")]
