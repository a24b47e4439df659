"""Deletions show what they put out of reach in other clusters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.models.metadata_sync import StrandedTopic
from magnetar.base.names import NamespaceName
from magnetar.base.position import Position
from magnetar.cli import stranding
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import ClusterData, Policies
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, FakeSubscription, FakeTopic, new_service
from tests.unit.cli.fake_cluster import OBS, TOPIC

if TYPE_CHECKING:
    from tests.unit.cli.fake_cluster import Run

STRANDED = {
    TOPIC: StrandedTopic(storage_size=1_234, subscriptions=["sub"]),
    "persistent://nyc/old/t": StrandedTopic(storage_size=5, subscriptions=[]),
    "persistent://nyc/old/u": StrandedTopic(storage_size=6, subscriptions=[]),
}


@pytest.fixture
def other(service: FakeAdminService, monkeypatch: pytest.MonkeyPatch) -> FakeAdminService:
    """Return cluster B, which has a topic of the namespace nyc/flights; C does not answer."""
    found = new_service()
    found.topics.held[OBS] = FakeTopic([b"x"] * 10, {"sub": FakeSubscription(Position(3, 3))})
    service.metadata_sync = FakeSynchronizer()
    for name in ("B", "C"):
        data = ClusterData(serviceUrl=f"http://{name.lower()}:8080")
        service.resources.clusters.put(name, data)

    def connect(url: str, *, timeout_s: float) -> AdminClient:
        assert timeout_s == stranding.TIMEOUT_S
        transport = AppTransport(found) if url == "http://b:8080" else httpx.MockTransport(_silent)
        return AdminClient(url, transport=transport)

    monkeypatch.setattr(stranding, "AdminClient", connect)
    return found


def _silent(request: httpx.Request) -> httpx.Response:
    message = "refused"
    raise httpx.ConnectError(message, request=request)


def refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*line.split(), "-o", "json"]) is ExitCode.FAILED
    return str(json.loads(capsys.readouterr().err)["error"])


@pytest.mark.usefixtures("other")
def test_the_deletion_of_a_namespace(service: FakeAdminService, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused("namespaces delete nyc/flights", capsys)
    assert f"B: {TOPIC} becomes unreachable: " in text
    assert "sub has 6 unacknowledged entries" in text
    assert "C: its topics are unknown: no answer from http://c:8080" in text
    assert "becomes unreachable" not in refused("namespaces delete nyc/flights --local", capsys)
    service.metadata_sync = None
    assert "becomes unreachable" not in refused("namespaces delete nyc/flights", capsys)


@pytest.mark.usefixtures("other")
def test_a_cluster_that_leaves_a_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    text = refused("namespaces set-clusters nyc/flights -c A", capsys)
    assert f"B: {TOPIC} becomes unreachable: " in text
    assert "C:" not in text


def test_the_deletion_of_a_tenant(other: FakeAdminService, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused("tenants delete nyc", capsys)
    assert "namespace nyc/flights of another cluster has no tenant any more" in text
    assert f"B: {TOPIC} becomes unreachable: " in text
    other.resources.namespaces.put(NamespaceName("nyc", "bills"), Policies())
    assert "namespace nyc/bills of another cluster" in refused("tenants delete nyc", capsys)


def test_only_some_topics_are_shown(
    other: FakeAdminService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stranding, "TOPICS_MAX", 2)
    for index in range(4):
        other.topics.held[OBS.partition(index)] = FakeTopic()
    text = refused("namespaces set-clusters nyc/flights -c A", capsys)
    assert text.count("becomes unreachable") == 2
    assert "B: 3 further topics of nyc/flights become unreachable" in text


def test_stranded_topics_are_listed_and_deleted(
    service: FakeAdminService, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    service.stranded.topics = dict(STRANDED)
    assert [each["topic"] for each in run("metadata stranded")] == list(STRANDED)
    text = refused(f"metadata delete-stranded {TOPIC} nyc/old", capsys)
    assert "this would delete 3 stranded topics" in text
    assert f"{TOPIC}: 1,234 bytes, with the subscriptions sub" in text
    assert "nyc/other: no such topic is stranded" in refused(f"metadata delete-stranded {TOPIC} nyc/other -f", capsys)
    assert list(service.stranded.topics) == list(STRANDED)
    assert run("metadata delete-stranded nyc/old --force") == ["persistent://nyc/old/t", "persistent://nyc/old/u"]
    assert list(service.stranded.topics) == [TOPIC]
    run(f"metadata delete-stranded {TOPIC} --force")
    assert run("metadata stranded") == []
