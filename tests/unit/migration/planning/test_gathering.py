"""A plan of two fake clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.policy.table import Policy
from magnetar.migration.planning.gathering import STEPS, plan
from magnetar.migration.scope import Scope
from magnetar.migration.sides import UnansweredError, source_of, target_of
from tests.unit.admin.fake_clusters import client_of
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic, new_service

if TYPE_CHECKING:
    from magnetar.migration.planning.report import Report

SHOP = Scope("shop")
ORDERS, RETURNS = NamespaceName("shop", "orders"), NamespaceName("shop", "returns")
EU, US = (TopicName.parse(f"persistent://shop/orders/{name}") for name in ("eu", "us"))


@pytest.fixture
def source() -> FakeAdminService:
    """Cluster ``legacy``, with a tenant of two namespaces, a partitioned topic and another one."""
    service = new_service()
    service.cluster_name = "legacy"
    service.resources.clusters.create("legacy", ClusterData())
    client = client_of(service)
    client.tenants.create("shop", ["legacy"])
    for namespace in (ORDERS, RETURNS):
        client.namespaces.create(namespace, ["legacy"])
    client.topics.create_partitioned(EU, 2)
    for index in range(2):
        service.topics.held[EU.partition(index)] = FakeTopic()
    service.topics.held[US] = FakeTopic(subscriptions={"billing": FakeSubscription(EARLIEST)})
    return service


@pytest.fixture
def target() -> FakeAdminService:
    service = new_service()
    service.cluster_name = "B"
    service.resources.clusters.create("legacy", ClusterData())
    return service


def planned(
    source: FakeAdminService, target: FakeAdminService, scope: Scope = SHOP, *, is_pulsar: bool = False
) -> Report:
    here, there = client_of(source, is_pulsar=is_pulsar), client_of(target)
    return plan(scope, source_of(here, " --cluster legacy"), target_of(there, " --cluster B"))


def findings(report: Report, severity: str) -> list[tuple[Any, ...]]:
    return [
        (each["area"], each["problem"], [one["name"] for one in each["resources"]])
        for each in report.to_json()["findings"]
        if each["severity"] == severity
    ]


def test_a_tenant_that_can_move_from_magnetar_or_apache_pulsar(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    report = planned(source, target)
    assert report.is_possible
    assert (report.source, report.target) == ("legacy", "B")
    assert (report.namespaces, report.topics, report.subscriptions) == (2, 3, 1)
    assert ("subscriptions", [str(US)]) in [(each[0], each[2]) for each in findings(report, "note")]
    assert report.changes == 4  # the tenant, two namespaces, and the partitioned topic
    assert not target.resources.tenants.exists("shop"), "a plan changes nothing"
    report = planned(source, target, is_pulsar=True)
    assert report.is_possible
    assert ("subscriptions", ["legacy"]) in [(each[0], each[2]) for each in findings(report, "warning")]


def test_clashes_are_blockers(source: FakeAdminService, target: FakeAdminService) -> None:
    client = client_of(target)
    client.tenants.create("shop", ["B"])
    client.namespaces.create(ORDERS, ["B"])
    client.topics.create_partitioned(EU, 3)
    client_of(source).policies.set(RETURNS, Policy.REPLICATED_SUBSCRIPTIONS_ALLOWED, value=False)
    report = planned(source, target)
    assert findings(report, "blocker") == [("partitions", "the partitions differ", [str(EU)])]
    assert report.to_json()["verdict"] == "blocked"


def test_one_topic_is_planned_alone_and_what_is_missing_is_a_blocker(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    report = planned(source, target, Scope("shop", topics=(EU,)))
    assert (report.namespaces, report.topics, report.subscriptions) == (1, 2, 0)
    report = planned(source, target, Scope("shop", namespaces=(RETURNS,)))
    assert (report.namespaces, report.topics) == (1, 0)
    lacking = TopicName.parse("persistent://shop/orders/lacking")
    assert findings(planned(source, target, Scope("bank")), "blocker") == [
        ("names", "the source does not have it", ["bank"])
    ]
    report = planned(source, target, Scope("shop", (NamespaceName("shop", "lacking"),), (lacking,)))
    assert [each[2] for each in findings(report, "blocker")] == [["shop/lacking"], [str(lacking)]]


def test_a_topic_of_apache_pulsar_moves_with_its_namespace_only(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    report = planned(source, target, Scope("shop", topics=(EU,)), is_pulsar=True)
    assert findings(report, "blocker") == [
        ("names", "a topic of Apache Pulsar moves with its namespace only", [str(EU)])
    ]


def test_a_cluster_and_itself_are_not_compared(source: FakeAdminService) -> None:
    report = planned(source, source)
    assert [each[2] for each in findings(report, "blocker")] == [["legacy"]]
    assert report.topics == 0


def test_progress_is_told_and_a_cluster_that_does_not_answer_is_named(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    told: list[tuple[str, int, int]] = []
    here, there = client_of(source), client_of(target)
    plan(SHOP, source_of(here), target_of(there), lambda *each: told.append(each))
    assert {each[0] for each in told} <= set(STEPS)
    assert [each for each in told if each[0] == "statistics"] == [("statistics", done, 3) for done in (1, 2, 3)]

    transport = httpx.MockTransport(lambda _: httpx.Response(401, json={"reason": "who are you"}))
    there = AdminClient("http://there:8080", transport=transport)
    with pytest.raises(UnansweredError, match="the target http://there:8080") as raised:
        plan(SHOP, source_of(here), target_of(there))
    assert str(raised.value.__cause__) == "who are you"
