from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli import metadata_diff
from magnetar.cli.main import main
from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, FakeTopic, new_service

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.admin.models.metadata_sync import LocalValue

FLIGHTS = NamespaceName("nyc", "flights")
PARTS = TopicName.parse("persistent://nyc/flights/parts")


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeAdminService]:
    found = {"http://a:1": new_service(), "http://b:1": new_service(), "http://c:1": new_service()}

    def connect(url: str, **_: object) -> AdminClient:
        transport: httpx.BaseTransport = httpx.MockTransport(_unreachable)
        return AdminClient(url, transport=AppTransport(found[url]) if url in found else transport)

    monkeypatch.setattr(metadata_diff, "AdminClient", connect)
    return found


def _unreachable(request: httpx.Request) -> httpx.Response:
    message = "refused"
    raise httpx.ConnectError(message, request=request)


@pytest.fixture
def run(services: dict[str, FakeAdminService], capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def call(*words: str) -> tuple[int, dict[str, Any]]:
        code = main(["metadata", "diff", *words, "--output", "json"])
        captured = capsys.readouterr()
        return code, json.loads(captured.out or captured.err)

    return call


def test_equal_clusters(run: Callable[..., Any]) -> None:
    assert run("http://a:1", "http://b:1", "http://c:1") == (0, {"equal": True, "differences": []})


def test_differences_of_each_kind(run: Callable[..., Any], services: dict[str, FakeAdminService]) -> None:
    first = services["http://a:1"].resources
    # Apache Pulsar stores policies of topics in this topic, so a namespace without it has none.
    services["http://a:1"].topics.held[TopicName.parse("nyc/flights/__change_events")] = FakeTopic()
    first.tenants.create("acme", TenantInfo(adminRoles=["admin"]))
    first.namespaces.update(FLIGHTS, lambda old: old.model_copy(update={"message_ttl_in_seconds": 60}))
    first.partitioned_topics.create(PARTS, PartitionedTopicMetadata(partitions=2, properties={"team": "x"}))
    first.topic_policies.change(PARTS, maxProducerPerTopic=3)
    services["http://b:1"].resources.partitioned_topics.create(PARTS, PartitionedTopicMetadata(partitions=3))
    code, found = run("http://a:1", "http://b:1")
    assert (code, found["equal"]) == (1, False)
    assert [(each["resource"], each["field"], list(each["values"].values())) for each in found["differences"]] == [
        ("acme", None, [True, False]),
        ("nyc/flights", "message_ttl_in_seconds", [60, None]),
        (str(PARTS), "partitions", [2, 3]),
        (str(PARTS), "properties/team", ["x", None]),
        (str(PARTS), "maxProducerPerTopic", [3, None]),
    ]


def test_fields_of_each_cluster_may_differ(run: Callable[..., Any], services: dict[str, FakeAdminService]) -> None:
    resources = services["http://b:1"].resources
    resources.namespaces.update(FLIGHTS, lambda old: old.model_copy(update={"replication_clusters": ["B"]}))
    code, found = run("http://a:1", "http://b:1")
    assert (code, found["equal"]) == (0, True)
    assert [each["allowed"] for each in found["differences"]] == ["belongs to each cluster"]


def test_a_part_of_the_metadata_can_be_compared(run: Callable[..., Any], services: dict[str, FakeAdminService]) -> None:
    resources = services["http://a:1"].resources
    resources.tenants.create("acme", TenantInfo())
    resources.namespaces.create(NamespaceName("acme", "orders"), Policies())
    assert run("http://a:1", "http://b:1", "--only", "nyc")[0] == 0
    assert run("http://a:1", "http://b:1", "--only", "nyc,acme/orders")[0] == 1
    assert run("http://a:1", "http://b:1", "--only", "a/b/c")[0] == 2


def test_a_copy_with_another_name(run: Callable[..., Any], services: dict[str, FakeAdminService]) -> None:
    for url, name in (("http://a:1", "legacy"), ("http://b:1", "ewr")):
        rates = {"topicDispatchRate": {name: {"dispatchThrottlingRateInMsg": 5}}}
        services[url].resources.namespaces.put(FLIGHTS, Policies.model_validate(rates))
    assert run("http://a:1", "http://b:1")[0] == 1
    assert run("http://a:1", "http://b:1", "--rename", "legacy=ewr")[0] == 0
    assert run("http://a:1", "http://b:1", "--rename", "legacy")[0] == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("http://a:1",), "at least two clusters are needed"),
        (("http://a:1", "http://a:1"), "is given twice"),
        (("http://a:1", "unknown"), "no profile has the name unknown"),
        (("http://a:1", "http://nobody:1"), "no answer from http://nobody:1"),
    ],
)
def test_trouble_has_a_status_of_its_own(run: Callable[..., Any], words: tuple[str, ...], reason: str) -> None:
    code, found = run(*words)
    assert (code, found["exitCode"]) == (2, 2)
    assert reason in found["error"]


def test_the_table_names_the_clusters(
    services: dict[str, FakeAdminService], capsys: pytest.CaptureFixture[str]
) -> None:
    services["http://a:1"].resources.tenants.create("acme", TenantInfo())
    assert main(["metadata", "diff", "http://a:1", "http://b:1"]) == 1
    captured = capsys.readouterr()
    assert "tenant acme" in captured.out
    assert "is missing" in captured.out
    assert "1 differences" in captured.err


async def nothing_local() -> list[LocalValue]:
    return []


@pytest.mark.parametrize(
    ("name", "rules", "reason"),
    [
        ("B", "*#message_ttl_in_seconds", "excluded by a rule in B"),
        ("B", "nyc/flights", "excluded by a rule in B"),
        ("B", "*#properties", None),
        ("A", "*#message_ttl_in_seconds", None),
    ],
)
def test_what_a_rule_excludes_may_differ(
    run: Callable[..., Any],
    services: dict[str, FakeAdminService],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    rules: str,
    reason: str | None,
) -> None:
    """B differs from A and C."""
    for url, cluster in zip(services, "ABC", strict=True):
        service = services[url]
        service.cluster_name = cluster
        service.metadata_sync = synchronizer = FakeSynchronizer()
        monkeypatch.setattr(synchronizer, "local", nothing_local)
        settings = service.runtime_configuration() | {"metadataSyncExcludedResources": rules if cluster == name else ""}
        monkeypatch.setattr(service, "runtime_configuration", lambda settings=settings: settings)
    namespaces = services["http://b:1"].resources.namespaces
    namespaces.update(FLIGHTS, lambda old: old.model_copy(update={"message_ttl_in_seconds": 60}))
    code, found = run(*services)
    assert code == (1 if reason is None else 0)
    assert [each["allowed"] for each in found["differences"]] == [reason]


def test_local_changes_may_differ(run: Callable[..., Any], services: dict[str, FakeAdminService]) -> None:
    services["http://a:1"].metadata_sync = FakeSynchronizer()
    namespaces = services["http://a:1"].resources.namespaces
    namespaces.update(FLIGHTS, lambda old: old.model_copy(update={"message_ttl_in_seconds": 60}))
    code, found = run(*services)
    assert (code, [each["allowed"] for each in found["differences"]]) == (0, ["local in A"])
    namespaces.update(FLIGHTS, lambda old: old.model_copy(update={"max_producers_per_topic": 1}))
    assert run(*services)[0] == 1


def test_a_rule_of_a_later_version_is_an_error_with_a_hint(
    run: Callable[..., Any], services: dict[str, FakeAdminService], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = services["http://b:1"]
    service.metadata_sync = FakeSynchronizer()
    settings = service.runtime_configuration() | {"metadataSyncExcludedResources": "*#of_tomorrow"}
    monkeypatch.setattr(service, "runtime_configuration", lambda: settings)
    code, found = run("http://a:1", "http://b:1")
    assert (code, found["exitCode"]) == (2, 2)
    assert found["error"].startswith("http://b:1 has a rule that this version does not know: '*#of_tomorrow'")
    assert found["hint"] == "use its version of magnetar"
