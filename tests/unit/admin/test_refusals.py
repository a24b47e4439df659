"""Refused requests get Pulsar's status and a reason, and change nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.admin.exchange import values_in
from magnetar.admin.handlers.topics import PARTITIONS_MAX
from magnetar.base.limits import BODY_SIZE_MAX, BODY_VALUES_MAX, NAME_LENGTH_MAX
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.metadata.policies import NAMESPACE_BUNDLES_MAX
from magnetar.security.exposure import Finding, Risk
from tests.unit.admin.fake_service import (
    FLIGHTS,
    AppTransport,
    FakeAdminService,
    FakeSubscription,
    FakeTopic,
    new_service,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(st.text(' \t\n,:[]{}"\\ab1\x0b', max_size=40))
def test_keys_and_values_are_found_without_a_search(text: str) -> None:
    """A search examines each byte between two values: a body of a million spaces took 50 ms."""
    content = text.encode()
    found = list(values_in(content))
    assert [each.start() for each in found[1:]] == [each.end() for each in found[:-1]]
    naive = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[^\s",:\[\]{}]+', re.DOTALL)
    assert len(found) == len(naive.findall(content))


OBS = TopicName.parse("persistent://nyc/flights/obs")


@pytest.fixture
def service() -> FakeAdminService:
    found = new_service()
    found.topics.held[OBS] = FakeTopic(entries=[b""], subscriptions={"sub": FakeSubscription(Position(3, -1))})
    return found


@pytest.fixture
def http(service: FakeAdminService) -> Iterator[httpx.Client]:
    with httpx.Client(transport=AppTransport(service), base_url=f"{service.admin_url}/admin/v2/") as client:
        yield client


NAMESPACE = "namespaces/nyc/flights"
TOPIC = "persistent/nyc/flights"


def bundles(*boundaries: str) -> dict[str, Any]:
    return {"bundles": {"boundaries": boundaries, "numBundles": len(boundaries) - 1}}


def isolated(pattern: str) -> dict[str, Any]:
    return {"namespaces": [pattern], "primary": [], "secondary": [], "auto_failover_policy": {}}


ISOLATED = "clusters/A/namespaceIsolationPolicies/p"

REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("PUT", "clusters/a%20b", {}, 412, "Cluster name is not valid"),
    (
        "PUT",
        "clusters/C",
        {"serviceUrl": "pulsar://c:1"},
        400,
        "Illegal serviceUrl pulsar://c:1: expected http://host:port",
    ),
    (
        "PUT",
        "clusters/C",
        {"brokerServiceUrl": "c:6650"},
        400,
        "Illegal brokerServiceUrl c:6650: expected pulsar://host:port",
    ),
    ("PUT", "clusters/C", {"serviceUrlTls": "http://c:1"}, 400, "Illegal serviceUrlTls http://c:1: expected https://"),
    (
        "PUT",
        "clusters/C",
        {"brokerClientTlsEnabledWithKeyStore": True},
        400,
        "brokerClientTlsEnabledWithKeyStore: key stores",
    ),
    ("PUT", "clusters/C", {"brokerClientKeyFilePath": "/k"}, 400, "brokerClientCertificateFilePath and"),
    ("PUT", "clusters/C", {"serviceUrl": 7}, 400, "serviceUrl: Input should be a valid string"),
    ("PUT", "clusters/C", [], 400, "Input should be an object"),
    ("POST", "clusters/C", {}, 404, "Cluster does not exist"),
    ("GET", "tenants/nyc%2Fflights", None, 412, "Tenant name is not valid"),
    ("DELETE", "tenants/nyc%2Fflights", None, 412, "Tenant name is not valid"),
    ("POST", ISOLATED, isolated("(?!a)b"), 400, "'(?!a)b' is not a regular expression: invalid perl operator"),
    ("POST", ISOLATED, isolated("(" * 5000), 400, "'(((("),
    ("DELETE", "clusters/B", None, 412, "Cluster not empty: nyc/flights replicates to it"),
    ("PUT", "tenants/t", {"allowedClusters": []}, 412, "Clusters can not be empty"),
    ("PUT", "tenants/a%2Fb", {"allowedClusters": ["A"]}, 412, "Tenant name is not valid"),
    ("POST", "tenants/nyc", {"allowedClusters": ["A"]}, 409, "Active namespaces use the removed clusters: nyc/flights"),
    ("DELETE", "tenants/nyc?force=true", None, 405, "Broker doesn't allow forced deletion of tenants"),
    ("GET", "namespaces/nope", None, 404, "Tenant not found"),
    ("PUT", "namespaces/nyc/a%20b", None, 412, "Namespace name is not valid"),
    ("PUT", "namespaces/nyc/n", {"replication_clusters": ["X"]}, 403, "Invalid cluster id: X"),
    ("PUT", "namespaces/nyc/n", {"bundles": {"numBundles": -1}}, 400, "Invalid number of bundles. "),
    ("PUT", "namespaces/nyc/n", bundles("0", "x"), 400, "A boundary of a bundle is not a number"),
    ("PUT", "namespaces/nyc/n", bundles("0", "0x00", "0xffffffff"), 400, "Input bundles included repeated "),
    ("PUT", "namespaces/nyc/n", bundles("0"), 400, "Input bundles do not cover the whole hash range. first:0x00000000"),
    ("PUT", "namespaces/nyc/n", bundles("0x1", "0xffffffff"), 400, "Input bundles do not cover the whole hash range. "),
    ("PUT", "namespaces/nyc/n", bundles("-0x1", "0xffffffff"), 400, "Input bundles do not cover the whole hash ra"),
    ("PUT", "namespaces/nyc/n", bundles("0", "0xfffffffff"), 400, "Input bundles do not cover the whole hash range. "),
    (
        "PUT",
        "namespaces/nyc/n",
        {"bundles": {"numBundles": NAMESPACE_BUNDLES_MAX + 1}},
        400,
        "Invalid number of bundles. ",
    ),
    (
        "PUT",
        "namespaces/nyc/n",
        {"resource_group_name": "g"},
        501,
        "Magnetar does not support the namespace policy resource_group_name",
    ),
    ("DELETE", NAMESPACE, None, 412, "Cannot delete the global namespace nyc/flights. There are still more than one "),
    ("DELETE", f"{NAMESPACE}?force=true", None, 405, "Broker doesn't allow forced deletion of namespaces"),
    ("POST", f"{NAMESPACE}/replication", [], 412, "ClusterIds should not be null or empty"),
    ("POST", f"{NAMESPACE}/replication", "A", 400, "Input should be a valid"),
    (
        "POST",
        f"{NAMESPACE}/retention",
        {"retentionTimeInMinutes": -2, "retentionSizeInMB": 1},
        400,
        "Invalid retention policy: time",
    ),
    (
        "POST",
        f"{NAMESPACE}/retention",
        {"retentionTimeInMinutes": "1 m"},
        400,
        "retentionTimeInMinutes: Input should be",
    ),
    ("PUT", "namespaces/nyc/n", {"message_ttl_in_seconds": -1}, 412, "Invalid value for message TTL"),
    ("POST", f"{NAMESPACE}/migration", True, 501, "Magnetar does not support migration of namespaces yet"),
    ("PUT", f"{TOPIC}/obs/shadowTopics", [], 501, "Magnetar does not support shadowTopics of topics yet"),
    ("POST", f"{TOPIC}/none/retention", {}, 404, "Topic persistent://nyc/flights/none not found"),
    ("GET", f"{TOPIC}/none/messageTTL", None, 404, "Topic persistent://nyc/flights/none not found"),
    ("POST", f"{TOPIC}/obs/messageTTL?messageTTL=soon", None, 400, "messageTTL='soon' is not a number"),
    ("POST", f"{TOPIC}/none/terminate", None, 404, "Topic persistent://nyc/flights/none not found"),
    (
        "PUT",
        f"{TOPIC}/obs/compaction",
        None,
        501,
        "Magnetar does not support compaction of topics yet",
    ),
    ("PUT", f"{TOPIC}/%20", None, 412, "Topic name is not valid"),
    ("PUT", f"{TOPIC}/a%2Fb", None, 412, "Topic name is not valid"),
    ("PUT", f"{TOPIC}/x-partition-0", None, 412, 'Can\'t create topic "persistent://nyc/flights/x-partition-0" with '),
    ("PUT", f"{TOPIC}/x-partition-0/partitions", 2, 412, "Partitioned Topic Name should not contain '-partition-'"),
    ("PUT", f"{TOPIC}/x/partitions", 0, 406, "Number of partitions should be more than 0"),
    (
        "PUT",
        f"{TOPIC}/x/partitions",
        PARTITIONS_MAX + 1,
        406,
        f"Number of partitions should be less than or equal to {PARTITIONS_MAX}",
    ),
    ("PUT", f"{TOPIC}/x/partitions", True, 400, "int: Input should be a valid integer"),
    ("POST", f"{TOPIC}/obs/partitions", 2, 404, "Partitioned Topic not found: persistent://nyc/flights/obs"),
    ("GET", f"{TOPIC}/x/partitions", None, 404, "Topic persistent://nyc/flights/x not found"),
    ("PUT", "persistent/nyc/nope/x", None, 404, "Namespace does not exist"),
    ("GET", f"{TOPIC}/x/subscriptions", None, 404, "Topic persistent://nyc/flights/x not found"),
    ("PUT", f"{TOPIC}/obs/subscription/s", "middle", 400, "literal['earliest','latest']: Input should be"),
    ("POST", f"{TOPIC}/obs/subscription/sub/resetcursor", None, 400, "Input should be an object"),
    (
        "POST",
        f"{TOPIC}/obs/subscription/sub/resetcursor",
        {"ledgerId": 2**63, "entryId": 0},
        400,
        "ledgerId: Input should be less than",
    ),
    ("POST", f"{TOPIC}/obs/subscription/sub/skip/many", None, 404, "HTTP 404 Not Found: POST /admin/v2/persistent/"),
    ("POST", f"{TOPIC}/obs/subscription/sub/skip/{'9' * 5000}", None, 404, "HTTP 404 Not Found: POST /admin/v2/persis"),
    ("POST", f"{TOPIC}/obs/messageTTL?messageTTL={2**31}", None, 400, f"messageTTL='{2**31}' is not a number"),
    ("GET", f"{TOPIC}/obs/subscription/sub/position/2", None, 404, "Message not found"),
    ("GET", "brokers/B", None, 404, "Cluster does not exist"),
    ("GET", "bogus", None, 404, "HTTP 404 Not Found: GET /admin/v2/bogus"),
    ("PATCH", "clusters", None, 405, "HTTP 405 Method Not Allowed: PATCH /admin/v2/clusters"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "reason"), REFUSED)
def test_refused(http: httpx.Client, method: str, path: str, body: object, status: int, reason: str) -> None:
    response = http.request(method, path) if body is None else http.request(method, path, json=body)
    assert (response.status_code, response.json()["reason"][: len(reason)]) == (status, reason)


def test_a_defect_is_answered_with_a_reason(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicName, "parse", None)
    grants = [{"topic": "t", "role": "r", "actions": []}]
    response = http.post("namespaces/grantPermissionsOnTopics", json=grants)
    assert response.status_code == 500
    assert response.json() == {"reason": "The request failed because of a defect; see the log of the broker"}


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"allowedClusters":', b"nonsense"])
def test_bad_json(http: httpx.Client, content: bytes) -> None:
    response = http.put("tenants/t", content=content)
    assert (response.status_code, response.json()["reason"][:12]) == (400, "Invalid JSON")


def test_a_body_has_a_limit(http: httpx.Client, service: FakeAdminService) -> None:
    response = http.put("tenants/t", content=b" " * (BODY_SIZE_MAX + 1))
    assert response.status_code == 413
    assert response.json() == {"reason": f"The body is larger than {BODY_SIZE_MAX} bytes (httpMaxRequestBodySize)"}
    assert service.hits.counts()["httpMaxRequestBodySize"] == 1
    assert service.bodies.used == 0


@pytest.mark.parametrize(
    ("opening", "value", "closing", "count"),
    [
        (b"[", b"1,", b"1]", BODY_VALUES_MAX - 2),
        (b"[", b"[],", b"1]", BODY_VALUES_MAX - 2),
        (b'{"adminRoles":[', b'"a,[{:\\"b\\\\",', b'""]}', BODY_VALUES_MAX - 4),
        (b"{", b'"" : "x",', b'"":1}', BODY_VALUES_MAX // 2 - 2),
        (b"", b"[", b"", BODY_VALUES_MAX),
        (b"", b'"\\\\" ', b'"\\', BODY_VALUES_MAX - 2),
    ],
)
def test_the_keys_and_values_of_a_body_have_a_limit(
    http: httpx.Client, service: FakeAdminService, opening: bytes, value: bytes, closing: bytes, count: int
) -> None:
    assert http.put("tenants/t", content=opening + value * count + closing).status_code != 413
    response = http.put("tenants/t", content=opening + value * (count + 2) + closing)
    assert response.status_code == 413
    reason = f"The body has more than {BODY_VALUES_MAX} keys and values (httpMaxRequestBodyValues)"
    assert response.json() == {"reason": reason}
    assert service.hits.counts()["httpMaxRequestBodyValues"] == 1
    assert service.bodies.used == 0


def test_bodies_leave_room_for_small_ones_of_others(http: httpx.Client, service: FakeAdminService) -> None:
    service.bodies.used = service.bodies.limit - 100_000
    response = http.put("tenants/t", content=b" " * 200_000)
    assert response.status_code == 503
    assert response.json()["reason"].endswith("(maxRestBodiesSizeInMB)")
    assert service.hits.counts()["maxRestBodiesSizeInMB"] == 1
    service.bodies.used = service.bodies.limit
    assert http.put("tenants/t", json={"allowedClusters": ["A"]}).status_code != 503
    assert service.bodies.used == service.bodies.limit


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("obs/subscription/sub/position/0", 400),
        (f"obs/subscription/sub/position/{2**70}", 404),
        (f"obs/ledger/{2**70}/entry/0", 404),
        (f"obs/ledger/3/entry/{2**64}", 404),
    ],
)
def test_a_position_that_cannot_be_is_refused(http: httpx.Client, path: str, status: int) -> None:
    assert http.get(f"{TOPIC}/{path}").status_code == status


def test_cluster_must_be_allowed_for_the_tenant(http: httpx.Client) -> None:
    http.put("clusters/C", json={})
    response = http.post(f"{NAMESPACE}/replication", json=["A", "C"])
    assert response.status_code == 403
    assert response.json() == {"reason": "Cluster [C] is not in the list of allowed clusters list for tenant [nyc]"}
    assert http.get(f"{NAMESPACE}/replication").json() == ["A", "B"]


def test_a_namespace_that_lives_elsewhere(http: httpx.Client) -> None:
    http.post(f"{NAMESPACE}/replication", json=["B"])
    response = http.get(f"{TOPIC}/obs/stats")
    assert response.status_code == 412
    assert response.json()["reason"] == (
        "Namespace missing local cluster name in clusters list: local_cluster=A ns=nyc/flights clusters=[B]"
    )


def test_a_namespace_with_topics_stays(http: httpx.Client) -> None:
    http.post(f"{NAMESPACE}/replication", json=["A"])
    assert http.delete(NAMESPACE).json() == {"reason": "Cannot delete non empty namespace"}


def test_those_in_use_stay_unless_forced(http: httpx.Client, service: FakeAdminService) -> None:
    service.topics.held[OBS].producers = 1
    service.topics.held[OBS].subscriptions["sub"].consumers = 1
    assert http.delete(f"{TOPIC}/obs/subscription/sub").status_code == 412
    assert http.delete(f"{TOPIC}/obs/subscription/sub?force=true").status_code == 204
    assert http.delete(f"{TOPIC}/obs").json() == {"reason": "Topic has active producers/subscriptions"}
    assert http.delete(f"{TOPIC}/obs?force=true").status_code == 204


def test_health_names_risks_in_headers_and_its_text_stays_that_of_pulsar(
    http: httpx.Client, service: FakeAdminService
) -> None:
    service.risks = [Finding(Risk.READABLE_SECRET, "each user can read /ké\ny", "chmod o-rwx it")]
    response = http.get("brokers/health")
    assert response.text == "ok"
    assert response.headers.get_list("Magnetar-Risk") == [r"each user can read /k\xe9\ny; chmod o-rwx it"]
    metrics = http.get("http://127.0.0.1:18080/metrics/").text
    assert 'magnetar_security_risks{cluster="A",risk="readable_secret"} 1.0' in metrics
    assert 'magnetar_security_risks{cluster="A",risk="no_authentication"} 0.0' in metrics


def test_an_unwell_broker_says_why(http: httpx.Client, service: FakeAdminService) -> None:
    service.healthy = False
    response = http.get("brokers/health")
    assert (response.status_code, response.json()) == (500, {"reason": "the log cannot be written: no space left"})


@pytest.mark.parametrize(
    ("policy", "status", "answer"), [("resourcegroup", 204, None), ("isAllowAutoUpdateSchema", 200, True)]
)
def test_policies_that_cannot_be_set_read_as_unset(
    http: httpx.Client, policy: str, status: int, answer: object
) -> None:
    response = http.get(f"{NAMESPACE}/{policy}")
    assert (response.status_code, response.json() if response.content else None) == (status, answer)


def test_policies_as_clients_send_them_are_accepted(http: httpx.Client) -> None:
    policies = http.get(NAMESPACE).json() | {"deduplicationEnabled": None, "later_policy": 7}
    assert http.put("namespaces/nyc/copy", json=policies).status_code == 204
    assert http.get("namespaces/nyc/copy/replication").json() == ["A", "B"]


def test_names_may_hold_encoded_characters(http: httpx.Client, service: FakeAdminService) -> None:
    assert http.put(f"{TOPIC}/obs/subscription/a%2Fb%20c%25", json="earliest").status_code == 204
    assert http.get(f"{TOPIC}/obs/subscriptions").json() == ["sub", "a/b c%"]


def test_partitions_are_meant_together(http: httpx.Client, service: FakeAdminService) -> None:
    http.put(f"{TOPIC}/pt/partitions", json={"partitions": 2, "properties": {"a": "b"}})
    http.put(f"{TOPIC}/pt/subscription/s?replicated=true", json={"ledgerId": -1, "entryId": -1})
    parts = [TopicName.parse(f"persistent://nyc/flights/pt-partition-{index}") for index in range(2)]
    assert [service.topics.held[part].subscriptions["s"].position for part in parts] == [Position(-1, -1)] * 2
    found = http.get(f"{TOPIC}/pt/subscription/s/replicatedSubscriptionStatus").json()
    assert found == {str(part): True for part in parts}
    assert http.get(f"{TOPIC}/pt/subscriptions").json() == ["s"]
    assert http.post(f"{TOPIC}/pt/subscription/s/skip/1").status_code == 405
    http.post(f"{TOPIC}/pt/all_subscription/expireMessages/5")
    assert [service.topics.held[part].subscriptions["s"].position for part in parts] == [Position(3, -5)] * 2
    assert http.get(f"{TOPIC}/pt/partitioned-internalStats").json()["metadata"]["partitions"] == 2
    assert http.put(f"{TOPIC}/pt/unload").status_code == 204
    assert http.get(f"{TOPIC}/pt/stats").status_code == 404


def test_policy_changes_reach_the_broker(http: httpx.Client, service: FakeAdminService) -> None:
    heard: list[list[str]] = []

    def changed(namespace: object) -> None:
        policies = service.resources.namespaces.get(FLIGHTS)
        heard.append(policies.replication_clusters if policies else [])

    service.resources.namespaces.watch(changed)
    http.post(f"{NAMESPACE}/replication", json=["A", "A"])
    assert heard == [["A"]]


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        ("tenants/{}", {"allowedClusters": ["A"]}, "maxNameLength"),
        ("namespaces/nyc/{}", {}, "maxNameLength"),
        ("clusters/{}", {}, "maxClusterNameLength"),
    ],
)
def test_nothing_is_created_with_a_long_name(
    http: httpx.Client, service: FakeAdminService, path: str, body: object, limit: str
) -> None:
    name = "x" * (NAME_LENGTH_MAX + 1)
    response = http.put(path.format(name), json=body)
    assert response.status_code == 412
    assert f"({limit})" in response.json()["reason"]
    assert service.hits.counts()[limit] == 1
    assert http.put(path.format("x" * 200), json=body).is_success


def test_clients_with_transactions_learn_that_there_are_no_coordinators(http: httpx.Client) -> None:
    """Clients with an ``http://`` service URL ask so, in a namespace that does not exist here."""
    path = "persistent/pulsar/system/transaction_coordinator_assign/partitions"
    answer = http.get(path, params={"checkAllowAutoCreation": "true"})
    assert (answer.status_code, answer.json()) == (200, {"partitions": 0, "deleted": False})
    assert http.get(path).status_code == 404
