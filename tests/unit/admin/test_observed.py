"""A recorded conversation with Apache Pulsar 4.0.7, replayed: equal statuses, reasons and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.metadata.policies import Addresses, ClusterData
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, FakeSubscription, FakeTopic, new_service

if TYPE_CHECKING:
    from collections.abc import Iterator

OBS = TopicName.parse("persistent://nyc/flights/obs")
URLS = {"serviceUrl": "http://127.0.0.1:18080", "brokerServiceUrl": "pulsar://127.0.0.1:16650"}
TLS = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
}
RETENTION_CONFLICT = (
    "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits has a "
    "non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable retention both limits "
    "must be set to 0."
)
NO_SUB = {"reason": "Subscription sub not found for topic persistent://nyc/flights/obs"}
PARTITIONED = (
    "persistent://nyc/flights/pt is a partitioned topic, instead of calling delete topic, please call "
    "delete-partitioned-topic."
)

# Method, path below /admin/v2/, body (None: none), status, response (None: empty), as recorded.
CONVERSATION: list[tuple[str, str, Any, int, Any]] = [
    ("GET", "brokers/A", None, 200, ["127.0.0.1:18080"]),
    ("GET", "brokers/leaderBroker", None, 200, {"serviceUrl": "http://127.0.0.1:18080", "brokerId": "127.0.0.1:18080"}),
    ("GET", "clusters", None, 200, ["A", "B"]),
    ("GET", "clusters/A", None, 200, URLS | TLS),
    ("GET", "clusters/nope", None, 404, {"reason": "Cluster does not exist"}),
    ("PUT", "clusters/A", {"serviceUrl": "http://x:1"}, 409, {"reason": "Cluster already exists"}),
    ("POST", "clusters/A", URLS, 200, None),
    ("GET", "tenants", None, 200, ["nyc"]),
    ("GET", "tenants/nyc", None, 200, {"adminRoles": [], "allowedClusters": ["A", "B"]}),
    ("PUT", "tenants/t1", {"adminRoles": [], "allowedClusters": ["A"]}, 204, None),
    ("PUT", "tenants/t1", {"adminRoles": [], "allowedClusters": ["A"]}, 409, {"reason": "Tenant already exist"}),
    ("PUT", "tenants/t2", {"adminRoles": [], "allowedClusters": ["zz"]}, 412, {"reason": "Clusters do not exist"}),
    ("POST", "tenants/t1", {"adminRoles": ["r"], "allowedClusters": ["A"]}, 204, None),
    ("DELETE", "tenants/t1", None, 204, None),
    ("DELETE", "tenants/nyc", None, 409, {"reason": "The tenant still has active namespaces"}),
    ("GET", "tenants/nope", None, 404, {"reason": "Tenant does not exist"}),
    ("GET", "namespaces/nyc", None, 200, ["nyc/flights"]),
    ("PUT", "namespaces/nyc/n2", {}, 204, None),
    ("PUT", "namespaces/nyc/n2", {}, 409, {"reason": "Namespace already exists"}),
    ("PUT", "namespaces/nope/n2", {}, 404, {"reason": "Tenant does not exist"}),
    ("GET", "namespaces/nyc/n2/replication", None, 200, ["A"]),
    ("POST", "namespaces/nyc/n2/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100}, 204, None),
    ("GET", "namespaces/nyc/n2/retention", None, 200, {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100}),
    (
        "POST",
        "namespaces/nyc/n2/retention",
        {"retentionTimeInMinutes": 0, "retentionSizeInMB": 100},
        400,
        {"reason": RETENTION_CONFLICT},
    ),
    ("POST", "namespaces/nyc/n2/replication", ["A", "nope"], 403, {"reason": "Invalid cluster id: nope"}),
    ("GET", "namespaces/nyc/n2/backlogQuotaMap", None, 200, {}),
    ("GET", "namespaces/nyc/n2/permissions", None, 200, {}),
    ("DELETE", "namespaces/nyc/n2", None, 204, None),
    ("GET", "namespaces/nyc/nope", None, 404, {"reason": "Namespace does not exist"}),
    ("GET", "persistent/nyc/flights", None, 200, ["persistent://nyc/flights/obs"]),
    ("GET", "persistent/nyc/flights/partitioned", None, 200, []),
    ("PUT", "persistent/nyc/flights/np", None, 204, None),
    ("PUT", "persistent/nyc/flights/np", None, 409, {"reason": "This topic already exists"}),
    ("PUT", "persistent/nyc/flights/pt/partitions", 3, 204, None),
    ("PUT", "persistent/nyc/flights/pt/partitions", 3, 409, {"reason": "This topic already exists"}),
    ("POST", "persistent/nyc/flights/pt/partitions", 5, 204, None),
    (
        "POST",
        "persistent/nyc/flights/pt/partitions",
        2,
        422,
        {"reason": "Desired partitions 2 can't be less than the current partitions 5."},
    ),
    ("GET", "persistent/nyc/flights/pt/partitions", None, 200, {"partitions": 5, "deleted": False}),
    ("DELETE", "persistent/nyc/flights/pt", None, 409, {"reason": PARTITIONED}),
    (
        "DELETE",
        "persistent/nyc/flights/pt/partitions",
        None,
        422,
        {"reason": "Delete forbidden topic is replicated on clusters [B]"},
    ),
    ("GET", "persistent/nyc/flights/obs/subscriptions", None, 200, ["sub"]),
    ("PUT", "persistent/nyc/flights/obs/subscription/s2", "latest", 204, None),
    (
        "PUT",
        "persistent/nyc/flights/obs/subscription/s2",
        None,
        409,
        {"reason": "Subscription already exists for topic"},
    ),
    ("POST", "persistent/nyc/flights/obs/subscription/s2/skip/2", None, 204, None),
    ("POST", "persistent/nyc/flights/obs/subscription/s2/skip_all", None, 204, None),
    (
        "POST",
        "persistent/nyc/flights/obs/subscription/nope/skip_all",
        None,
        404,
        {"reason": "Subscription nope not found for topic persistent://nyc/flights/obs"},
    ),
    ("POST", "persistent/nyc/flights/obs/subscription/sub/resetcursor/1795256219397", None, 204, None),
    ("DELETE", "persistent/nyc/flights/obs/subscription/sub", None, 204, None),
    ("POST", "persistent/nyc/flights/obs/subscription/sub/replicatedSubscriptionStatus", True, 404, NO_SUB),
    ("GET", "persistent/nyc/flights/obs/subscription/sub/replicatedSubscriptionStatus", None, 404, NO_SUB),
    ("POST", "persistent/nyc/flights/obs/subscription/sub/expireMessages/1", None, 404, NO_SUB),
    ("GET", "persistent/nyc/flights/obs/ledger/0/entry/0", None, 404, {"reason": "Message id not found"}),
    (
        "GET",
        "persistent/nyc/flights/obs/lastMessageId",
        None,
        200,
        {"ledgerId": 3, "entryId": 24, "partitionIndex": -1, "batchSize": 0, "batchIndex": -1},
    ),
    ("PUT", "persistent/nyc/flights/obs/unload", None, 204, None),
    ("DELETE", "persistent/nyc/flights/obs", None, 204, None),
    (
        "GET",
        "persistent/nyc/flights/nope/stats",
        None,
        404,
        {"reason": "Topic persistent://nyc/flights/nope not found"},
    ),
    ("GET", "schemas/nyc/flights/obs/schema", None, 404, {"reason": "Schema not found"}),
]


@pytest.fixture
def service() -> FakeAdminService:
    found = new_service()
    found.topics.held[OBS] = FakeTopic(entries=[b""] * 25, subscriptions={"sub": FakeSubscription(Position(3, 2))})
    return found


@pytest.fixture
def http(service: FakeAdminService) -> Iterator[httpx.Client]:
    with httpx.Client(transport=AppTransport(service), base_url=service.admin_url) as client:
        yield client


def test_the_conversation_repeats(http: httpx.Client) -> None:
    for method, path, body, status, answer in CONVERSATION:
        url = f"/admin/v2/{path}"
        response = http.request(method, url) if body is None else http.request(method, url, json=body)
        found = response.json() if response.content else None
        assert (method, path, response.status_code, found) == (method, path, status, answer)
        if answer is not None:
            assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("path", "text"), [("health", "ok"), ("ready", "ok"), ("version", "4.0.7")])
def test_words_about_the_broker(http: httpx.Client, path: str, text: str) -> None:
    response = http.get(f"/admin/v2/brokers/{path}")
    assert (response.status_code, response.text) == (200, text)
    assert response.headers["content-type"] == "application/json"


def test_lookup(http: httpx.Client) -> None:
    assert http.get("/lookup/v2/topic/persistent/nyc/flights/obs").json() == {
        "brokerUrl": "pulsar://127.0.0.1:16650",
        "httpUrl": "http://127.0.0.1:18080",
        "nativeUrl": "pulsar://127.0.0.1:16650",
        "brokerUrlSsl": "",
    }


def test_lookup_of_a_broker_with_tls(http: httpx.Client, service: FakeAdminService) -> None:
    data = ClusterData(serviceUrlTls="https://b:8443", brokerServiceUrlTls="pulsar+ssl://b:6651")
    service.addresses = Addresses(data)
    assert http.get("/lookup/v2/topic/persistent/nyc/flights/obs").json() == {
        "brokerUrlTls": "pulsar+ssl://b:6651",
        "httpUrlTls": "https://b:8443",
        "brokerUrlSsl": "",
    }


def test_metrics_redirect(http: httpx.Client) -> None:
    response = http.get("/metrics")
    assert (response.status_code, response.headers["location"]) == (302, "http://127.0.0.1:18080/metrics/")
    assert http.get("/metrics/").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_policies_of_a_new_namespace(http: httpx.Client) -> None:
    http.put("/admin/v2/namespaces/nyc/n2")
    http.post("/admin/v2/namespaces/nyc/n2/retention", json={"retentionTimeInMinutes": 10, "retentionSizeInMB": 100})
    found = http.get("/admin/v2/namespaces/nyc/n2").json()
    assert found["bundles"] == {
        "boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"],
        "numBundles": 4,
    }
    assert found["retention_policies"] == {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100}
    assert found["replication_clusters"] == ["A"]


def test_peeked_entry_is_named(http: httpx.Client, service: FakeAdminService) -> None:
    service.topics.held[OBS].entries[3] = _entry(b"x0")
    response = http.get("/admin/v2/persistent/nyc/flights/obs/subscription/sub/position/1")
    assert (response.status_code, response.content) == (200, b"x0")
    assert response.headers["X-Pulsar-Message-ID"] == "3:3"
    assert json.loads(response.headers["X-Pulsar-PROPERTY"]) == {"a": "b"}
    assert response.headers["X-Pulsar-publish-time"] == "1970-01-01T00:00:01.024Z"


def _entry(payload: bytes) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p1", sequence_id=0, publish_time=1024)
    metadata.properties.add(key="a", value="b")
    return build_entry(metadata, payload)
