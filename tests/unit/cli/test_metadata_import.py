"""``magnetar metadata import``."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName
from magnetar.cli import metadata_diff, metadata_import
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.policy.table import Policy
from tests.unit.admin.fake_clusters import PulsarTransport
from tests.unit.admin.fake_service import FakeAdminService, new_service

if TYPE_CHECKING:
    from tests.unit.cli.fake_cluster import Run

ORDERS = NamespaceName("shop", "orders")
INTERRUPTED = 130
COMMAND = "metadata import --from http://pulsar:8080"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> AdminClient:
    """A client of Apache Pulsar, with the namespace shop/orders and a function."""
    service = new_service()
    service.cluster_name = "legacy"
    service.resources.clusters.create("legacy", ClusterData())
    transport = _WithFunctions(service)
    monkeypatch.setattr(metadata_diff, "AdminClient", partial(AdminClient, transport=transport))
    client = AdminClient("http://pulsar:8080", transport=transport)
    client.tenants.create("shop", ["legacy"])
    client.namespaces.create(ORDERS)
    client.policies.set(ORDERS, Policy.MESSAGE_TTL, 60)
    client.permissions.grant(ORDERS, "r", ["consume"])
    return client


class _WithFunctions(PulsarTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/admin/v3/functions/shop/orders":
            return httpx.Response(200, json=["count"])
        if request.url.path == "/admin/v2/bookies/all":
            return httpx.Response(200, json={"bookies": [{"bookieId": "b:3181"}]})
        if request.url.path == "/admin/v2/resourcegroups":
            return httpx.Response(401, json={"reason": "Not authorized"})
        return super().handle_request(request)


def of(found: dict[str, Any], part: str, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(each[field] for field in fields) for each in found[part]]


CHANGES = [
    ("Tenants", "shop", None, None, True),
    ("Namespaces", "shop/orders", None, None, True),
    ("Namespaces", "shop/orders", "auth_policies/namespace_auth/r", None, True),
    ("Namespaces", "shop/orders", "message_ttl_in_seconds", None, True),
]


def test_a_dry_run_shows_each_field_and_changes_nothing(
    run: Run, source: AdminClient, service: FakeAdminService
) -> None:
    for _ in range(2):
        found = run(f"{COMMAND} --dry-run")
        assert found["dryRun"] is True
        assert of(found, "changes", "resourceType", "resource", "field", "before", "hasEffect") == CHANGES
        assert found["changes"][3]["after"] == 60
    assert not service.resources.tenants.exists("shop")


def test_an_import_is_made_once(run: Run, source: AdminClient, service: FakeAdminService) -> None:
    found = run(COMMAND)
    assert of(found, "changes", "resourceType", "resource", "field", "before", "hasEffect") == CHANGES
    stored = service.resources.namespaces.get(ORDERS)
    assert stored is not None
    assert (stored.message_ttl_in_seconds, stored.replication_clusters) == (60, ["A"])
    again = run(COMMAND)
    assert (again["changes"], again["refused"]) == ([], [])


def test_what_magnetar_does_not_have_is_listed(run: Run, source: AdminClient) -> None:
    source.tenants.create("pulsar", ["legacy"])
    found = run(COMMAND)
    assert [(each["resourceType"], each["resource"], each["detail"]) for each in found["notImported"]] == [
        ("tenant", "pulsar", "namespaces that the brokers create for themselves"),
        ("resource group", "", "the source refuses to list them: Not authorized"),
        ("bookie", "b:3181", ""),
        ("function", "shop/orders/count", ""),
    ]
    assert {each["reason"] for each in found["notImported"]} == {"no counterpart"}


def test_only_what_is_selected_is_imported(run: Run, source: AdminClient, service: FakeAdminService) -> None:
    source.tenants.create("other", ["legacy"])
    source.namespaces.create(NamespaceName("shop", "carts"))
    assert {each["resource"] for each in run(f"{COMMAND} --only other")["changes"]} == {"other"}
    assert {each["resource"] for each in run(f"{COMMAND} --only shop/carts")["changes"]} == {"shop", "shop/carts"}
    assert not service.resources.namespaces.exists(ORDERS)


def test_clusters_are_mapped(run: Run, source: AdminClient, service: FakeAdminService) -> None:
    source.clusters.create("far", {"serviceUrl": "http://far:8080"})
    source.tenants.update("shop", ["legacy", "far"])
    source.namespaces.set_clusters(ORDERS, ["legacy", "far"])
    run(f"{COMMAND} --rename legacy=A,legacy=B,far=")
    stored = service.resources.namespaces.get(ORDERS)
    assert stored is not None
    assert stored.replication_clusters == ["A", "B"]


def test_an_unknown_cluster_is_an_error(source: AdminClient, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    source.clusters.create("far", {})
    source.tenants.update("shop", ["legacy", "far"])
    assert main(f"{COMMAND} --dry-run".split()) is ExitCode.FAILED
    error = capsys.readouterr().err
    assert "far: shop" in error
    assert "hint: name other clusters with --rename" in error
    assert run(f"{COMMAND} --register-clusters")["changes"][0]["resourceType"] == "Clusters"


def test_a_refusal_is_shown_and_fails(
    run: Run, source: AdminClient, service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.name_length_max = len("shop")
    assert main([*COMMAND.split(), "--output", "json"]) is ExitCode.FAILED
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert of(found, "changes", "resourceType", "resource") == [("Tenants", "shop")]
    assert of(found, "refused", "resourceType", "resource", "field")[0] == ("Namespaces", "shop/orders", None)
    assert "may have 4 bytes" in found["refused"][0]["reason"]
    assert "3 changes were refused" in captured.err


def test_the_source_is_named_if_it_fails(
    source: AdminClient, service: FakeAdminService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answering(response: httpx.Response) -> AdminClient:
        return AdminClient("http://pulsar:8080", transport=httpx.MockTransport(lambda _: response))

    refusing = answering(httpx.Response(401, json={"reason": "Authentication required"}))
    monkeypatch.setattr(metadata_diff, "AdminClient", lambda _url: refusing)
    assert main(COMMAND.split()) is ExitCode.FAILED
    error = capsys.readouterr().err
    assert "error: Authentication required" in error
    assert "the source http://pulsar:8080 answered 401 Unauthorized; a profile can have a token" in error
    monkeypatch.setattr(metadata_diff, "AdminClient", lambda _url: answering(httpx.Response(200, text="<html>")))
    assert main(COMMAND.split()) is ExitCode.UNREACHABLE
    assert "hint: --from names the admin URL of Apache Pulsar" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("--rename legacy", ExitCode.FAILED),
        ("--rename =A", ExitCode.FAILED),
        ("--only shop/a/b", ExitCode.FAILED),
        ("--interval soon", ExitCode.USAGE),
    ],
)
def test_wrong_options_are_refused(source: AdminClient, service: FakeAdminService, option: str, code: ExitCode) -> None:
    assert main(f"{COMMAND} {option}".split()) is code


def test_the_text_has_a_table_for_changes_and_one_for_the_rest(
    source: AdminClient, service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(COMMAND.split()) is ExitCode.DONE
    captured = capsys.readouterr()
    assert "message_ttl_in_seconds" in captured.out
    assert "shop/orders/count" in captured.out
    assert "4 changes made, 0 refused, 3 differences not imported; 0 of the values are stored without effect" in (
        captured.err
    )


def test_later_changes_are_imported_until_interrupted(
    source: AdminClient,
    service: FakeAdminService,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[int] = []

    def wait(seconds: int) -> None:
        waits.append(seconds)
        match len(waits):
            case 2:
                source.policies.set(ORDERS, Policy.MESSAGE_TTL, 90)
            case 3:
                service.name_length_max = len("shop")
                source.namespaces.create(NamespaceName("shop", "carts"))
            case 4:
                source.clusters.create("far", {})
                source.tenants.update("shop", ["legacy", "far"])
            case 5:
                raise KeyboardInterrupt

    monkeypatch.setattr(metadata_import, "_wait", wait)
    assert main([*COMMAND.split(), "--watch", "--interval", "2m", "--output", "json"]) == INTERRUPTED
    assert waits == [120] * 5
    captured = capsys.readouterr()
    first, second, third = map(json.loads, captured.out.splitlines())
    assert len(first["changes"]) == 4
    assert of(second, "changes", "resource", "before", "after") == [("shop/orders", 60, 90)]
    assert of(third, "refused", "resource") == [("shop/carts",)]
    assert "the import failed, and is tried again in 120 s: the source names clusters" in captured.err
