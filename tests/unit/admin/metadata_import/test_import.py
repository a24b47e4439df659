"""An import makes the metadata of a cluster those of Apache Pulsar, in steps that can be repeated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.cluster_metadata.document import MAGNETAR_POLICIES
from magnetar.admin.cluster_metadata.reading import read_metadata
from magnetar.admin.metadata_import import sending
from magnetar.admin.metadata_import.apply import apply
from magnetar.admin.metadata_import.changes import Change, Plan, Reason, Remark
from magnetar.admin.metadata_import.cluster_names import ClusterNames
from magnetar.admin.metadata_import.plan import plan_import
from magnetar.admin.metadata_import.topics import schema_changes
from magnetar.base.errors import ConfigurationError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.policy.table import Policy
from magnetar.metasync.comparison import differences, renamed
from tests.kit.policy_samples import BACKLOG_QUOTAS, policy_samples
from tests.unit.admin.fake_clusters import client_of
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic, new_service

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ORDERS = NamespaceName("shop", "orders")
EU = TopicName.parse("persistent://shop/orders/eu")
US = TopicName.parse("persistent://shop/orders/us")
CHANGES = TopicName.parse("persistent://shop/orders/__change_events")
SUBSCRIPTION = "billing"
RATE = {"dispatchThrottlingRateInMsg": 7, "dispatchThrottlingRateInByte": -1}
FIRST, SECOND, CLASHING = (
    {"type": "AVRO", "schema": json.dumps({"type": "record", "name": "R", "fields": fields}), "properties": {}}
    for fields in (
        [{"name": "a", "type": "int"}],
        [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}],
        [{"name": "c", "type": "string"}],
    )
)


@pytest.fixture
def source() -> FakeAdminService:
    """Apache Pulsar, with a namespace, a partitioned topic and another one."""
    service = new_service()
    service.cluster_name = "legacy"
    service.resources.clusters.create("legacy", ClusterData(serviceUrl="http://legacy:8080"))
    client = client_of(service)
    client.tenants.create("shop", ["legacy"], ["admin"])
    client.namespaces.create(ORDERS, ["legacy"], 16)
    service.topics.held[CHANGES] = FakeTopic()
    client.topics.create_partitioned(EU, 3)
    client.properties.update(EU, {"team": "data"})
    service.topics.held[US] = FakeTopic(subscriptions={SUBSCRIPTION: FakeSubscription(EARLIEST)})
    return service


@pytest.fixture
def target() -> FakeAdminService:
    service = new_service()
    service.cluster_name = "B"
    return service


def plan(
    source: FakeAdminService,
    target: FakeAdminService,
    names: Mapping[str, Sequence[str]] | None = None,
    *,
    registers: bool = False,
) -> Plan:
    read = read_metadata(client_of(source, is_pulsar=True))
    known = read_metadata(client_of(target))
    cluster_names = ClusterNames(read, known, names or {}, registers=registers)
    cluster_names.require_known(read)
    return plan_import(read, known, cluster_names)


def imported(source: FakeAdminService, target: FakeAdminService) -> Plan:
    """Import, and return what is different afterwards."""
    refused = apply(client_of(target), plan(source, target).changes)
    assert refused == []
    return plan(source, target)


def set_everything(client: AdminClient) -> None:
    for policy, value in policy_samples(0).items():
        if policy.namespace is not None:
            client.policies.set(ORDERS, policy, value)
        if policy.topic is not None:
            client.policies.set(EU, policy, value)
    for owner in (ORDERS, EU):
        for kind, quota in BACKLOG_QUOTAS.items():
            client.policies.set_backlog_quota(owner, kind, **quota)  # type: ignore[arg-type]
        client.permissions.grant(owner, "role of/all", ["produce", "consume"])
    client.permissions.grant_for_subscription(ORDERS, SUBSCRIPTION, ["r", "q"])
    client.namespaces.set_auto_update_of_schemas(ORDERS, allowed=False)
    client.properties.update(ORDERS, {"a/b": "c"})
    client.placement.set_anti_affinity_group(ORDERS, "g")
    client.placement.set_bookie_affinity_group(ORDERS, {"bookkeeperAffinityGroupPrimary": "p"})
    client.topic_documents.set_dispatch_rate(US, SUBSCRIPTION, RATE)
    for schema in (FIRST, SECOND):
        client.schemas.upload(EU, schema)


def test_the_samples_have_each_policy_of_apache_pulsar() -> None:
    missing = set(Policy) - MAGNETAR_POLICIES - policy_samples(0).keys()
    assert missing == {Policy.REPLICATE_SUBSCRIPTION_STATE, Policy.ENTRY_FILTERS}


def test_everything_is_imported_once(source: FakeAdminService, target: FakeAdminService) -> None:
    set_everything(client_of(source))
    left = imported(source, target)
    assert left.changes == []
    assert left.remarks == []
    read, known = read_metadata(client_of(source)), read_metadata(client_of(target))
    copy = {resource: document for resource, document in known.resources.items() if resource in read.resources}
    assert list(differences({"source": renamed(read.resources, {"legacy": "B"}), "target": copy})) == []
    assert known.placements == read.placements
    assert [each["data"] for each in known.schemas[EU]] == [FIRST["schema"], SECOND["schema"]]


def test_each_change_names_the_field_and_its_values(source: FakeAdminService, target: FakeAdminService) -> None:
    imported(source, target)
    of_source, of_target = client_of(source), client_of(target)
    of_source.policies.set(ORDERS, Policy.MESSAGE_TTL, 60)
    of_target.policies.set(ORDERS, Policy.MESSAGE_TTL, 90)
    of_target.policies.set(ORDERS, Policy.MAX_PRODUCERS, 5)
    of_source.permissions.grant(ORDERS, "r", ["consume"])
    of_source.policies.set(EU, Policy.MESSAGE_TTL, 30)
    of_source.topics.update_partitioned(EU, 5)
    found = {
        (each.name, each.field): (each.before, each.after, each.has_effect) for each in plan(source, target).changes
    }
    assert found == {
        (str(ORDERS), "/message_ttl_in_seconds"): (90, 60, True),
        (str(ORDERS), "/max_producers_per_topic"): (5, None, True),
        (str(ORDERS), "/auth_policies/namespace_auth/r"): (None, ["consume"], True),
        (str(EU), "/partitions"): (3, 5, True),
        (str(EU), "/messageTTLInSeconds"): (None, 30, True),
    }
    assert imported(source, target).changes == []
    assert of_target.policies.get(ORDERS, Policy.MAX_PRODUCERS) is None


def test_an_interrupted_import_is_continued(source: FakeAdminService, target: FakeAdminService) -> None:
    set_everything(client_of(source))
    whole = plan(source, target).changes
    assert len(whole) > 60
    for _ in range(3):
        apply(client_of(target), plan(source, target).changes[:20])
    assert len(plan(source, target).changes) == len(whole) - 60
    assert imported(source, target).changes == []


def test_policies_of_magnetar_are_left_alone(source: FakeAdminService, target: FakeAdminService) -> None:
    imported(source, target)
    client_of(target).policies.set(ORDERS, Policy.MAX_AT_RISK_MESSAGES, 5)
    client_of(target).policies.set(EU, Policy.MAX_AT_RISK_SECONDS, 6)
    client_of(target).policies.set(EU, Policy.REPLICATE_SUBSCRIPTION_STATE, value=True)
    assert plan(source, target) == Plan()


def test_what_only_the_target_has_is_kept_and_listed(source: FakeAdminService, target: FakeAdminService) -> None:
    client_of(source).tenants.create("other", ["legacy"])
    client_of(target).tenants.create("own", ["B"])
    found = plan(source, target).remarks
    assert found == [Remark(Reason.ONLY_IN_TARGET, "Tenants", "own", "")]


def test_clusters_of_a_namespace_are_copied_at_its_creation_only(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    names = {"legacy": ["A", "B"]}
    client_of(source).policies.set(ORDERS, Policy.DISPATCH_RATE, RATE)
    apply(client_of(target), plan(source, target, names).changes)
    assert client_of(target).policies.get(ORDERS, Policy.DISPATCH_RATE)["dispatchThrottlingRateInMsg"] == 7
    assert client_of(target).namespaces.clusters(ORDERS) == ["A", "B"]
    client_of(target).namespaces.set_clusters(ORDERS, ["B"])
    left = plan(source, target, names)
    assert left.changes == []
    detail = "the source has ['A', 'B'], the target ['B']"
    assert left.remarks == [Remark(Reason.OF_EACH_CLUSTER, "Namespaces", str(ORDERS), "/replication_clusters", detail)]


def test_further_clusters_of_a_tenant_are_added(source: FakeAdminService, target: FakeAdminService) -> None:
    client_of(target).tenants.create("shop", ["A"], ["admin"])
    (change,) = [each for each in plan(source, target).changes if each.kind == "Tenants"]
    assert (change.field, change.before, change.after) == ("/allowedClusters", ["A"], ["A", "B"])
    assert imported(source, target) == Plan()


def test_an_unknown_cluster_is_an_error_that_names_its_users(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    client_of(source).clusters.create("far", {"serviceUrl": "http://far:8080"})
    client_of(source).tenants.update("shop", ["legacy", "far"], ["admin"])
    client_of(source).namespaces.set_clusters(ORDERS, ["legacy", "far"])
    with pytest.raises(ConfigurationError, match=r"does not know:\n  far: shop, shop/orders\nhint: .*--rename"):
        plan(source, target)
    for names, clusters in (({"far": ["A"]}, ["B", "A"]), ({"far": []}, ["B"])):
        (namespace,) = [
            each for each in plan(source, target, names).changes if each.name == str(ORDERS) and not each.field
        ]
        assert namespace.after["replication_clusters"] == clusters
    found = plan(source, target, registers=True)
    assert [(each.kind, each.name) for each in found.changes][:2] == [("Clusters", "far"), ("Tenants", "shop")]
    assert apply(client_of(target), found.changes) == []
    assert client_of(target).namespaces.clusters(ORDERS) == ["B", "far"]


def test_rates_of_other_clusters_have_no_counterpart(source: FakeAdminService, target: FakeAdminService) -> None:
    client_of(source).policies.set(ORDERS, Policy.DISPATCH_RATE, RATE)
    stored = source.resources.namespaces.get(ORDERS)
    assert stored is not None
    rates = {**stored.topicDispatchRate, "A": stored.topicDispatchRate["legacy"]}
    source.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update={"topicDispatchRate": rates}))
    left = imported(source, target)
    assert [(each.reason, each.field) for each in left.remarks] == [(Reason.NO_COUNTERPART, "/topicDispatchRate/A")]


def test_offload_policies_without_a_driver_come_from_their_thresholds(
    source: FakeAdminService, target: FakeAdminService
) -> None:
    imported(source, target)
    for policy, value in ((Policy.OFFLOAD_THRESHOLD, 5), (Policy.OFFLOAD_DELETION_LAG, 7)):
        client_of(source).policies.set(ORDERS, policy, value)
    offload = client_of(source).policies.get(ORDERS, Policy.OFFLOAD_POLICIES)
    assert (offload["managedLedgerOffloadThresholdInBytes"], offload["managedLedgerOffloadDeletionLagInMillis"]) == (
        5,
        7,
    )
    client_of(target).policies.set(ORDERS, Policy.OFFLOAD_POLICIES, {"managedLedgerOffloadDriver": "filesystem"})
    assert imported(source, target) == Plan()
    assert client_of(target).policies.get(ORDERS, Policy.OFFLOAD_POLICIES) == offload
    client_of(source).policies.remove(ORDERS, Policy.OFFLOAD_POLICIES)
    client_of(target).policies.set(ORDERS, Policy.OFFLOAD_THRESHOLD, 9)
    assert imported(source, target) == Plan()


def test_policies_that_magnetar_does_not_have_are_listed(source: FakeAdminService, target: FakeAdminService) -> None:
    fields = {"resource_group_name": "g", "of_tomorrow": {"a": 1}, "entryFilters": {"entryFilterNames": "f"}}
    source.resources.namespaces.update(ORDERS, lambda old: old.model_validate(old.to_json() | fields))
    left = imported(source, target)
    assert sorted((each.reason, each.field) for each in left.remarks if each.name == str(ORDERS)) == sorted(
        (Reason.NO_COUNTERPART, field) for field in ("/resource_group_name", "/of_tomorrow", "/entryFilters")
    )


def test_a_version_that_clashes_is_registered_with_another_strategy(target: FakeAdminService) -> None:
    requests: list[tuple[str, str, Any]] = []
    answers = iter([409, 200, 204, 200, 204])

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append((request.method, request.url.path.rpartition("/")[2], json.loads(request.content or b"null")))
        return httpx.Response(next(answers), json="FULL" if request.method == "GET" else None)

    sending.schema(EU, FIRST)(AdminClient("http://h:1", transport=httpx.MockTransport(answer)))
    strategy = "schemaCompatibilityStrategy"
    assert requests == [
        ("POST", "schema", FIRST),
        ("GET", strategy, None),
        ("PUT", strategy, "ALWAYS_COMPATIBLE"),
        ("POST", "schema", FIRST),
        ("PUT", strategy, "FULL"),
    ]


def test_other_versions_in_the_target_are_a_conflict(source: FakeAdminService, target: FakeAdminService) -> None:
    client_of(source).schemas.upload(EU, FIRST)
    imported(source, target)
    client_of(source).schemas.delete(EU, force=True)
    client_of(source).schemas.upload(EU, SECOND)
    left = plan(source, target)
    assert left.changes == []
    assert [(each.reason, each.kind, each.name) for each in left.remarks] == [(Reason.CONFLICT, "Schemas", str(EU))]


def version(number: int, schema: dict[str, Any]) -> dict[str, Any]:
    return {"version": number, "type": schema["type"], "data": schema["schema"], "properties": {}, "timestamp": number}


def test_versions_are_registered_in_order() -> None:
    wanted = [version(0, FIRST), version(1, SECOND), version(2, CLASHING)]
    found = list(schema_changes(EU, [version(0, FIRST)], wanted))
    assert [(each.field, each.after) for each in found if isinstance(each, Change)] == [
        ("/1", SECOND),
        ("/2", CLASHING),
    ]
    assert list(schema_changes(EU, wanted, wanted)) == []


def test_versions_with_other_numbers_are_listed() -> None:
    """Apache Pulsar counts on after the deletion of a schema."""
    wanted = [version(3, FIRST), version(4, SECOND)]
    remark, *changes = schema_changes(EU, [], wanted)
    assert isinstance(remark, Remark)
    assert remark.detail == "versions have other numbers in the target: 3 is 0, 4 is 1"
    assert [each.field for each in changes] == ["/0", "/1"]
    assert list(schema_changes(EU, [version(0, FIRST), version(1, SECOND)], wanted)) == [remark]


def test_partitions_that_cannot_be_imported_are_conflicts(source: FakeAdminService, target: FakeAdminService) -> None:
    imported(source, target)
    client_of(target).topics.update_partitioned(EU, 7)
    target.topics.held[US] = FakeTopic()
    client_of(source).topics.create_partitioned(TopicName.parse("persistent://shop/orders/x"), 2)
    target.topics.held[TopicName.parse("persistent://shop/orders/x")] = FakeTopic()
    found = [(each.reason, each.name, each.field) for each in plan(source, target).remarks]
    assert found == [
        (Reason.CONFLICT, "persistent://shop/orders/x", "/partitions"),
        (Reason.CONFLICT, str(EU), "/partitions"),
    ]


def test_a_refused_change_is_tried_again_at_the_end(source: FakeAdminService, target: FakeAdminService) -> None:
    """A quota must be below the retention, whichever of them grows."""
    imported(source, target)
    client = client_of(source)
    client.policies.set_retention(ORDERS, minutes=600, megabytes=100)
    client.policies.set_backlog_quota(ORDERS, "message_age", "producer_exception", limit_time=500)
    assert imported(source, target) == Plan()
    client.policies.remove_backlog_quota(ORDERS, "message_age")
    client.policies.set_retention(ORDERS, minutes=6, megabytes=1)
    client.policies.set_backlog_quota(ORDERS, "message_age", "producer_exception", limit_time=300)
    assert imported(source, target) == Plan()


def test_a_refusal_has_the_change_and_the_reason(target: FakeAdminService) -> None:
    def refuse(client: AdminClient) -> None:
        client.tenants.get("nobody")

    change = Change("Tenants", "nobody", "", None, {}, refuse)
    told: list[tuple[int, int]] = []
    (refusal,) = apply(client_of(target), [change], lambda *each: told.append(each))
    assert (refusal.change, str(refusal.error), told) == (change, "Tenant does not exist", [(1, 1)])
