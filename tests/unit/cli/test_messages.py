"""``magnetar messages locate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.position import Position
from magnetar.cli import messages
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import ClusterData, Policies
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, FakeTopic, new_service
from tests.unit.cli.fake_cluster import OBS, TOPIC

if TYPE_CHECKING:
    from tests.unit.cli.fake_cluster import Run

AT_ORIGIN, HERE = Position(7, 8), Position(3, 4)


@pytest.fixture(autouse=True)
def other(service: FakeAdminService, monkeypatch: pytest.MonkeyPatch) -> FakeAdminService:
    """Return cluster B, which published an entry that A has; C does not answer, and D has no URL."""
    found = new_service()
    found.topics.held[OBS] = FakeTopic(service.topics.held[OBS].entries, locations={("B", AT_ORIGIN): Position(7, 8)})
    service.topics.held[OBS].locations["B", AT_ORIGIN] = HERE
    for name in "BCD":
        url = None if name == "D" else f"http://{name.lower()}:8080"
        service.resources.clusters.put(name, ClusterData(serviceUrl=url))
    service.resources.namespaces.put(OBS.namespace_name, Policies(replication_clusters=list("ABCD")))

    def connect(url: str, *, timeout_s: float) -> AdminClient:
        assert timeout_s == messages.TIMEOUT_S
        transport = AppTransport(found) if url == "http://b:8080" else httpx.MockTransport(_silent)
        return AdminClient(url, transport=transport)

    monkeypatch.setattr(messages, "AdminClient", connect)
    return found


def _silent(request: httpx.Request) -> httpx.Response:
    message = "refused"
    raise httpx.ConnectError(message, request=request)


@pytest.mark.parametrize("arguments", ["3:4", "7:8 --origin B"])
def test_a_message_is_found_by_either_position(run: Run, arguments: str) -> None:
    found = run(f"messages locate {TOPIC} {arguments}")
    assert found["origin"] == {"cluster": "B", "position": "7:8"}
    clusters = {each.pop("cluster"): each for each in found["clusters"]}
    assert list(clusters) == list("ABCD")
    assert clusters["A"] == {"state": "present", "position": "3:4", "reason": None}
    assert clusters["B"] == {"state": "present", "position": "7:8", "reason": None}
    assert [clusters[name]["state"] for name in "CD"] == ["unknown", "unknown"]
    assert "no answer from http://c:8080" in clusters["C"]["reason"]
    assert clusters["D"]["reason"] == "D is registered without a serviceUrl"


def test_the_text(capsys: pytest.CaptureFixture[str], other: FakeAdminService) -> None:
    del other.topics.held[OBS].locations["B", AT_ORIGIN]
    assert main(["messages", "locate", TOPIC, "3:4"]) is ExitCode.DONE
    output = capsys.readouterr()
    assert output.err == "published in B at 7:8\n"
    lines = [" ".join(line.split()) for line in output.out.splitlines()]
    assert "A present 3:4" in lines
    assert "B notArrived" in lines


def test_a_message_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["messages", "locate", TOPIC, "3:5", "-o", "json"]) is ExitCode.FAILED
    error = json.loads(capsys.readouterr().err)
    assert error["error"] == f"A has no message at 3:5 of {TOPIC}"
    assert error["hint"] == "if 3:5 is the position at its origin, add --origin A, or another cluster"


def test_higher_ledger_ids(run: Run) -> None:
    assert run("brokers raise-ledger-ids")["after"] == 1_700_000_000_000


def test_the_former_cluster(run: Run) -> None:
    assert run(f"messages former-cluster {TOPIC}") is None
    former = {"cluster": "B", "ledgersBelow": 3}
    assert run(f"messages set-former-cluster {TOPIC} --former B")["after"] == former
    assert run(f"messages former-cluster {TOPIC}") == former
    assert run(f"messages remove-former-cluster {TOPIC}")["before"] == former
    assert run(f"messages former-cluster {TOPIC}") is None


@pytest.mark.parametrize("text", ["earliest", "-1:-1", "3"])
def test_anything_else_is_no_position(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["messages", "locate", "--origin", "B", TOPIC, "--", text]) is ExitCode.USAGE
    assert "is not ledger:entry" in capsys.readouterr().err
