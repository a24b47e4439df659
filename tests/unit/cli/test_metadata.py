from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.cli import metadata_diff
from magnetar.cli.main import ExitCode, main
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import AppTransport, new_service

if TYPE_CHECKING:
    from tests.unit.admin.fake_service import FakeAdminService
    from tests.unit.cli.fake_cluster import Run


@pytest.fixture(autouse=True)
def synchronizer(service: FakeAdminService) -> FakeSynchronizer:
    service.metadata_sync = FakeSynchronizer()
    return service.metadata_sync


def test_status_and_refused_events(run: Run) -> None:
    assert run("metadata status")["conflicts"] == 4
    assert run("metadata refused")[0]["reason"] == "not JSON"


def test_a_snapshot(synchronizer: FakeSynchronizer) -> None:
    assert main(["metadata", "snapshot"]) is ExitCode.DONE
    assert synchronizer.snapshots == 1


def test_the_history_has_a_row_for_each_field(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run("metadata history nyc/flights")) == 2
    assert main(["metadata", "history", "nyc/flights"]) is ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert sum("1006.0.A" in line for line in lines) == 2
    assert any("message_ttl_in_seconds" in line and "lost to 1006.0.B" in line for line in lines)
    assert [line.split()[0] for line in lines if "local" in line.split()] == ["1005.0.A"]


def test_the_history_of_an_unknown_resource(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metadata", "history", "nyc"]) is ExitCode.FAILED
    printed = capsys.readouterr().err
    assert "no edit of nyc is known" in printed
    assert "magnetar metadata history" not in printed, "it was this command"


def test_undo(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metadata", "undo", "nyc/flights", "-o", "json"]) is ExitCode.FAILED
    error = json.loads(capsys.readouterr().err)
    assert "later edits changed the same fields" in error["error"]
    assert "--force" in error["hint"]
    assert run("metadata undo nyc/flights 1005.0.A --force")["edit"] == "1005.0.A"
    assert main(["metadata", "undo", "nyc/flights", "--force"]) is ExitCode.DONE
    assert 'message_ttl_in_seconds=null, properties/team="x"' in capsys.readouterr().err


def test_a_dry_run_shows_what_the_metadata_of_another_cluster_would_change(
    run: Run, service: FakeAdminService, synchronizer: FakeSynchronizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_service()
    other.metadata_sync = FakeSynchronizer()

    def connect(url: str, **_: object) -> AdminClient:
        assert url == "http://other:8080"
        return AdminClient(url, transport=AppTransport(other))

    monkeypatch.setattr(metadata_diff, "AdminClient", connect)
    changed, refused = run("metadata sync http://other:8080 --dry-run")
    assert (changed["resource"], changed["field"], changed["after"]) == ("sfo", "adminRoles", ["r"])
    assert (refused["resource"], refused["refused"]) == ("x", "the event would be refused: not JSON")
    assert (synchronizer.snapshots, other.metadata_sync.snapshots) == (0, 0)
    assert main(["metadata", "sync", "http://other:8080"]) is ExitCode.DONE
    assert (synchronizer.snapshots, other.metadata_sync.snapshots) == (0, 1)
    service.metadata_sync = None
    assert main(["metadata", "sync", "http://other:8080", "--dry-run"]) is ExitCode.FAILED


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_failure_of_the_other_cluster_names_it(
    option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = new_service()
    connect = partial(AdminClient, transport=AppTransport(other))
    monkeypatch.setattr(metadata_diff, "AdminClient", connect)
    line = ["metadata", "sync", "http://other:8080", *option, "-o", "json"]
    assert main(line) is ExitCode.FAILED
    refused = json.loads(capsys.readouterr().err)
    assert (refused["url"], refused["status"]) == ("http://other:8080", 412)
    assert refused["hint"] == "the other cluster http://other:8080 answered 412 Precondition Failed"
    monkeypatch.setattr(metadata_diff, "AdminClient", partial(AdminClient, transport=httpx.MockTransport(refuse)))
    assert main(line) is ExitCode.UNREACHABLE
    unreachable = json.loads(capsys.readouterr().err)
    assert unreachable["url"] == "http://other:8080"
    assert unreachable["hint"].startswith("CLUSTER is a profile or an admin URL")


def refuse(_: httpx.Request) -> httpx.Response:
    message = "refused"
    raise httpx.ConnectError(message)
