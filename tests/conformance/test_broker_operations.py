"""Operations of pulsar-admin on brokers and clusters, with the answers of Apache Pulsar 4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUOTA = {"msgRateIn": 1.0, "msgRateOut": 2.0, "bandwidthIn": 3.0, "bandwidthOut": 4.0, "memory": 5.0, "dynamic": False}


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker for one test."""
    with Broker(tmp_path) as running:
        yield running


def status(broker: Broker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Return the status and the decoded answer."""
    response = broker.rest.request(method, path, body)
    return response.status_code, response.json() if response.content else None


def test_dynamic_configuration(own_broker: Broker, topic: str) -> None:
    rest, setting = own_broker.rest, "brokers/configuration/allowAutoTopicCreation"
    assert "allowAutoTopicCreation" in rest.get("brokers/configuration")
    assert rest.get("brokers/configuration/values") == {}
    rest.post(f"{setting}/false")
    for _ in range(2):
        assert rest.get("brokers/configuration/values") == {"allowAutoTopicCreation": "false"}
        assert rest.get("brokers/configuration/runtime")["allowAutoTopicCreation"] == "false"
        client = connect(own_broker.service_url)
        with pytest.raises(pulsar.TopicNotFound):
            client.create_producer(topic)
        client.close()
        own_broker.kill()
        own_broker.start()
    rest.delete(setting)
    assert rest.get("brokers/configuration/values") == {}
    client = connect(own_broker.service_url)
    publish(client, topic, numbered(1))
    client.close()


def test_settings_that_need_a_restart_are_refused(broker: Broker) -> None:
    for name in ("clusterName", "brokerServicePort", "nonsense"):
        refused = {"reason": "Can't update non-dynamic configuration"}
        assert status(broker, "POST", f"brokers/configuration/{name}/7") == (412, refused)
        refused = {"reason": "Can't delete non-dynamic configuration"}
        assert status(broker, "DELETE", f"brokers/configuration/{name}") == (412, refused)
    for name, value in (("defaultNumPartitions", "many"), ("allowAutoTopicCreation", "7")):
        refused_value, answer = status(broker, "POST", f"brokers/configuration/{name}/{value}")
        assert (refused_value, answer["reason"][:29]) == (412, "Invalid dynamic-config value:")
    assert broker.rest.get("brokers/configuration/values") == {}


def test_owned_namespaces(broker: Broker, namespace: str) -> None:
    (name,) = broker.rest.get("brokers")
    owned = broker.rest.get(f"brokers/{broker.cluster}/{name}/ownedNamespaces")
    bundles = broker.rest.get(f"namespaces/{namespace}/bundles")["boundaries"]
    expected = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    assert owned[f"{namespace}/{bundles[0]}_{bundles[1]}"] == expected
    missing = {"reason": "Broker id 'x:1' not found in available brokers."}
    assert status(broker, "GET", f"brokers/{broker.cluster}/x:1/ownedNamespaces") == (404, missing)


def test_statistics_of_the_broker(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    publish(client, topic, numbered(3))
    rest, namespace = broker.rest, "public/default"
    bundle = rest.request("GET", f"../../lookup/v2/topic/{topic_path(topic)}/bundle").text
    stats = rest.get("broker-stats/topics")[namespace][bundle]["persistent"][topic]
    assert stats["subscriptions"]["s"]["msgBacklog"] == 3
    (found,) = [each for each in rest.get("broker-stats/metrics") if each["dimensions"] == {"namespace": namespace}]
    assert found["metrics"]["brk_msg_backlog"] >= 3
    report = rest.get("broker-stats/load-report")
    assert f"{namespace}/{bundle}" in report["bundles"]
    assert (report["pulsarServiceUrl"], report["loadReportType"]) == (broker.service_url, "LocalBrokerData")
    assert rest.get("broker-stats/allocator-stats/default")["usedHeapMemory"] > 0
    invalid = {"reason": "Invalid allocator name : x"}
    assert status(broker, "GET", "broker-stats/allocator-stats/x") == (406, invalid)


def test_peers(broker: Broker) -> None:
    here = f"clusters/{broker.cluster}"
    broker.rest.ensure("clusters/peer", {"serviceUrl": "http://x:1", "brokerServiceUrl": "pulsar://x:2"})
    broker.rest.post(f"{here}/peers", ["peer"])
    assert broker.rest.get(f"{here}/peers") == ["peer"]
    broker.rest.post(f"{here}/peers", [])
    assert broker.rest.get(f"{here}/peers") == []
    itself = {"reason": f"{broker.cluster} itself can't be part of peer-list"}
    assert status(broker, "POST", f"{here}/peers", [broker.cluster]) == (412, itself)
    assert status(broker, "POST", f"{here}/peers", ["no"]) == (412, {"reason": "Peer cluster no does not exist"})
    assert status(broker, "POST", "clusters/no/peers", []) == (404, {"reason": "Cluster does not exist"})


def test_failure_domains(broker: Broker) -> None:
    rest, root = broker.rest, f"clusters/{broker.cluster}/failureDomains"
    assert rest.get(root) == {}
    rest.post(f"{root}/d1", {"brokers": ["b1:8080", "b2:8080"]})
    assert rest.get(root) == {"d1": {"brokers": ["b1:8080", "b2:8080"]}}
    shared = {"reason": "[b1:8080] already exists in d1"}
    assert status(broker, "POST", f"{root}/d2", {"brokers": ["b1:8080"]}) == (409, shared)
    missing = {"reason": f"Domain no for cluster {broker.cluster} does not exist"}
    assert status(broker, "GET", f"{root}/no") == (404, missing)
    assert status(broker, "DELETE", f"{root}/no")[0] == 404
    assert status(broker, "POST", "clusters/no/failureDomains/d", {"brokers": []})[0] == 412
    rest.delete(f"{root}/d1")
    assert rest.get(root) == {}


def test_isolation_policies(broker: Broker) -> None:
    rest, root = broker.rest, f"clusters/{broker.cluster}/namespaceIsolationPolicies"
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
    policy = {"namespaces": ["a/.*"], "primary": ["127.*"], "secondary": [], "auto_failover_policy": failover}
    assert status(broker, "POST", f"{root}/p", {})[0] == 400
    assert status(broker, "POST", f"{root}/p", {**policy, "primary": ["("]})[0] == 400
    rest.post(f"{root}/p", policy)
    assert rest.get(root) == {"p": policy}
    assert rest.get(f"{root}/p") == policy
    (name,) = rest.get("brokers")
    matched = {"brokerName": name, "policyName": "p", "namespaceRegex": ["a/.*"], "primary": True}
    assert rest.get(f"{root}/brokers") == [matched]
    assert rest.get(f"{root}/brokers/no:1") == {"brokerName": "no:1", "namespaceRegex": [], "primary": False}
    rest.delete(f"{root}/p")
    rest.delete(f"{root}/p")
    assert rest.get(root) == {}
    missing = {"reason": "Cluster no does not exist."}
    assert status(broker, "GET", "clusters/no/namespaceIsolationPolicies") == (404, missing)


def test_resource_quotas(broker: Broker, namespace: str) -> None:
    rest = broker.rest
    default = rest.get("resource-quotas")
    assert (default["msgRateIn"], default["dynamic"]) == (40.0, True)
    bundles = rest.get(f"namespaces/{namespace}/bundles")["boundaries"]
    quota = f"resource-quotas/{namespace}/{bundles[0]}_{bundles[1]}"
    assert rest.get(quota) == default
    rest.post(quota, QUOTA)
    assert rest.get(quota) == QUOTA
    rest.delete(quota)
    assert rest.get(quota) == default
    invalid = {"reason": "Invalid bundle range: bad"}
    assert status(broker, "GET", f"resource-quotas/{namespace}/bad") == (412, invalid)
