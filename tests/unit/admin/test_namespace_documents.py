"""Permissions, groups, bundles and replication clusters, beyond what was recorded of Apache Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.base.names import TopicName
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, FakeTopic, new_service

if TYPE_CHECKING:
    from collections.abc import Iterator

N = "namespaces/nyc/flights"
T = "persistent/nyc/flights/t"


@pytest.fixture
def service() -> FakeAdminService:
    service = new_service()
    for name in ("t", "u", "v"):
        service.topics.held[TopicName.parse(f"persistent://nyc/flights/{name}")] = FakeTopic()
    return service


@pytest.fixture
def http(service: FakeAdminService) -> Iterator[httpx.Client]:
    with httpx.Client(transport=AppTransport(service), base_url=f"{service.admin_url}/admin/v2/") as client:
        yield client


def refused(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["reason"]


def test_a_topic_has_the_permissions_of_its_namespace_too(http: httpx.Client) -> None:
    http.post(f"{N}/permissions/r", json=["produce"])
    http.post(f"{T}/permissions/r", json=["consume"])
    http.post(f"{T}/permissions/s", json=["consume", "consume"])
    assert http.get(f"{T}/permissions").json() == {"r": ["produce", "consume"], "s": ["consume"]}
    assert http.get("persistent/nyc/flights/u/permissions").json() == {"r": ["produce"]}
    assert http.get(N).json()["auth_policies"]["destination_auth"] == {
        "persistent://nyc/flights/t": {"r": ["consume"], "s": ["consume"]}
    }
    assert http.post(f"{N}/permissions/r", json=["fly"]).status_code == 400
    assert refused(http.post(f"{N}/permissions/r")) == (400, "Actions should not be null")
    assert http.delete(f"{N}/permissions/unknown/r").status_code == 404


def test_the_namespaces_of_a_group(service: FakeAdminService, http: httpx.Client) -> None:
    http.put("namespaces/nyc/other")
    http.put("namespaces/nyc/third")
    for namespace, group in (("flights", "g"), ("other", "g"), ("third", "h")):
        assert http.post(f"namespaces/nyc/{namespace}/antiAffinity", content=group).status_code == 204
    assert http.get("namespaces/A/antiAffinity/g?tenant=nyc").json() == ["nyc/flights", "nyc/other"]
    assert http.get(f"{service.admin_url}/admin/namespaces/A/antiAffinity/g?tenant=nyc").json() == [
        "nyc/flights",
        "nyc/other",
    ]
    assert http.get("namespaces/nyc/third/antiAffinity").text == "h"
    http.delete("namespaces/nyc/third")
    http.put("namespaces/nyc/third")
    assert http.get("namespaces/nyc/third/antiAffinity").status_code == 204, "the group is deleted with the namespace"


def test_a_pattern_of_an_isolation_policy_takes_linear_time(http: httpx.Client) -> None:
    path = "clusters/A/namespaceIsolationPolicies"
    policy = {"namespaces": ["n"], "primary": ["(a+)+b"], "secondary": [], "auto_failover_policy": {}}
    assert http.post(f"{path}/p", json=policy).status_code == 204
    assert http.get(f"{path}/brokers/{'a' * 200}").json()["namespaceRegex"] == []
    assert http.get(f"{path}/brokers/{'a' * 200}b:8080").json()["namespaceRegex"] == ["n"]


def test_a_group_is_text_that_can_be_stored(http: httpx.Client) -> None:
    assert http.post(f"{N}/antiAffinity", content=b'"a\\ud800"').status_code == 204
    assert http.get(f"{N}/antiAffinity").text == "a?"
    nested = "[" * 100_000  # as JSON, it exceeds the recursion limit of the interpreter
    assert http.post(f"{N}/antiAffinity", content=nested).status_code == 204
    assert http.get(f"{N}/antiAffinity").text == nested


def test_the_boundaries_of_bundles_are_stored_in_order(http: httpx.Client) -> None:
    http.put("namespaces/nyc/one", json={"bundles": {"boundaries": ["0xffffffff", "16", "0x0"], "numBundles": 2}})
    boundaries = ["0x00000000", "0x00000010", "0xffffffff"]
    assert http.get("namespaces/nyc/one/bundles").json() == {"boundaries": boundaries, "numBundles": 2}


def test_a_bundle_is_divided_between_its_topics(http: httpx.Client) -> None:
    http.put("namespaces/nyc/one", json={"bundles": {"numBundles": 1}})
    http.put("persistent/nyc/one/a", json={})
    http.put("persistent/nyc/one/b", json={})
    whole = "0x00000000_0xffffffff"
    hashes = http.get(f"namespaces/nyc/one/{whole}/topicHashPositions").json()
    assert (hashes["namespace"], hashes["bundle"]) == ("nyc/one", whole)
    low, high = sorted(hashes["topicHashPositions"].values())
    http.put("namespaces/nyc/one/LARGEST/split?splitAlgorithmName=topic_count_equally_divide")
    middle = f"0x{(low + high) // 2:08x}"
    assert http.get("namespaces/nyc/one/bundles").json()["boundaries"] == ["0x00000000", middle, "0xffffffff"]
    for bundle in (f"0x00000000_{middle}", f"{middle}_0xffffffff"):
        found = http.get(f"namespaces/nyc/one/{bundle}/topicHashPositions").json()
        assert len(found["topicHashPositions"]) == 1
    assert refused(http.delete(f"namespaces/nyc/one/0x00000000_{middle}")) == (409, "Cannot delete non empty bundle")
    split = f"namespaces/nyc/one/0x00000000_{middle}/split?splitAlgorithmName=specified_positions_divide"
    assert refused(http.put(split))[0] == 412


def test_a_topic_may_be_replicated_to_other_clusters_than_its_namespace(
    http: httpx.Client, service: FakeAdminService
) -> None:
    assert http.get(f"{T}/replication").status_code == 204
    assert http.get(f"{T}/replication?applied=true").json() == ["A", "B"]
    assert http.post(f"{T}/replication", json=["A"]).status_code == 204
    assert http.get(f"{T}/replication?applied=true").json() == ["A"]
    assert refused(http.post(f"{T}/replication", json=["A", "C"])) == (403, "Invalid cluster id: C")
    http.put("clusters/C", json={"serviceUrl": "http://c", "brokerServiceUrl": "pulsar://c"})
    status, reason = refused(http.post(f"{T}/replication", json=["A", "C"]))
    assert (status, reason) == (403, "Cluster [C] is not in the list of allowed clusters list for tenant [nyc]")
    http.post("tenants/nyc", json={"adminRoles": [], "allowedClusters": ["A", "B", "C"]})
    assert http.post(f"{T}/replication", json=["A", "C"]).status_code == 204
    assert http.get(f"{T}/replication?applied=true").json() == ["A", "C"]
    http.post(f"{T}/maxProducers", json=5)
    assert http.delete(f"{T}/policies").status_code == 204
    assert http.get(f"{T}/replication").status_code == 204
    assert http.get(f"{T}/maxProducers").status_code == 204


def test_clusters_of_a_namespace_must_be_allowed(http: httpx.Client) -> None:
    assert http.post(f"{N}/allowedClusters", json=["A", "B"]).status_code == 204
    http.post(f"{N}/replication", json=["A"])
    assert http.post(f"{N}/allowedClusters", json=["A"]).status_code == 204
    status, reason = refused(http.post(f"{N}/replication", json=["A", "B"]))
    assert (status, reason) == (
        403,
        "Cluster [B] is not in the list of allowed clusters list for namespace [nyc/flights]",
    )


def test_policies_of_all_clusters_at_once_are_refused(http: httpx.Client) -> None:
    assert http.post(f"{T}/maxProducers?isGlobal=true", json=5).status_code == 501
    assert http.get(f"{T}/maxProducers?isGlobal=true").status_code == 204


def test_a_partition_shows_the_policies_of_its_topic_and_cannot_change_them(http: httpx.Client) -> None:
    http.put("persistent/nyc/flights/p/partitions", json=2)
    part = "persistent/nyc/flights/p-partition-0"
    assert http.post("persistent/nyc/flights/p/maxProducers", json=5).status_code == 204
    assert http.get(f"{part}/maxProducers").json() == 5
    for method, path, body in (
        ("POST", "maxProducers", 6),
        ("DELETE", "maxProducers", None),
        ("POST", "backlogQuota", {"limitSize": 1, "policy": "producer_exception"}),
        ("POST", "replication", ["A"]),
    ):
        refusal = http.request(method, f"{part}/{path}", json=body)
        assert refused(refusal) == (412, "Not allowed to set/get topic policy for a partition")
