"""``magnetar migrate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.cli import metadata_diff
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import ClusterData
from tests.unit.admin.fake_clusters import MagnetarTransport, client_of
from tests.unit.admin.fake_service import FakeSubscription, FakeTopic, new_service

if TYPE_CHECKING:
    import httpx

PLAN = "migrate plan shop --from http://a:8080 --to http://b:8080"
ORDERS = NamespaceName("shop", "orders")
TOPICS = [TopicName.parse(f"persistent://shop/orders/t{index}") for index in range(5)]


@pytest.fixture(autouse=True)
def clusters(monkeypatch: pytest.MonkeyPatch) -> dict[str, httpx.BaseTransport]:
    """The clusters A and B; A has a tenant with five topics. Returns how their URLs are reached."""
    source, target = new_service(), new_service()
    target.cluster_name = "B"
    client = client_of(source)
    client.tenants.create("shop", ["A"])
    client.namespaces.create(ORDERS, ["A"])
    for topic in TOPICS:
        source.topics.held[topic] = FakeTopic(subscriptions={"billing": FakeSubscription(EARLIEST)})
    target.resources.clusters.create("C", ClusterData())
    found: dict[str, httpx.BaseTransport] = {
        "http://a:8080": MagnetarTransport(source),
        "http://b:8080": MagnetarTransport(target),
    }
    monkeypatch.setattr(metadata_diff, "AdminClient", lambda url: AdminClient(url, transport=found.get(url)))
    return found


def test_a_plan_is_a_table_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PLAN.split()) is ExitCode.DONE
    shown = capsys.readouterr()
    assert "and 2 more" in shown.out
    assert "shop, from A to B: 1 namespaces, 5 topics and partitions, 5 subscriptions" in shown.err
    assert "0 blockers" in shown.err


def test_a_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN.split(), "--output", "json", "--topic", str(TOPICS[0])]) is ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["topics"], found["scope"]) == ("possible", 1, str(TOPICS[0]))
    assert found["counts"]["blocker"] == 0


def test_a_blocker_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN.split(), "--namespace", "shop/lacking"]) is ExitCode.FAILED
    assert "1 blockers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ("plan shop --from http://a:8080 --to http://b:8080 --topic persistent://bank/a/b", ExitCode.FAILED, "bank"),
        ("plan shop --from http://a:8080 --to nowhere", ExitCode.FAILED, "nowhere"),
        ("plan shop --from http://a:8080", ExitCode.USAGE, "--to"),
        ("plan shop --from http://127.0.0.1:1 --to http://b:8080", ExitCode.UNREACHABLE, "--from is a profile"),
    ],
)
def test_errors_name_what_is_wrong(
    arguments: str, code: ExitCode, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", *arguments.split()]) is code
    assert error in capsys.readouterr().err
