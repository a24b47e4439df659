"""``magnetar migrate``."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.cli import metadata_diff, migrate_run
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import ClusterData
from tests.unit.admin.fake_clusters import PulsarTransport, client_of
from tests.unit.admin.fake_service import FakeSubscription, FakeTopic, new_service
from tests.unit.migration.linked_clusters import Source, Target

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

SIDES = "--from http://a:8080 --to http://b:8080"
PLAN = f"migrate plan shop {SIDES}"
RUN = f"migrate run shop {SIDES}"
ORDERS = NamespaceName("shop", "orders")
TOPICS = [TopicName.parse(f"persistent://shop/orders/t{index}") for index in range(5)]


@pytest.fixture(autouse=True)
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, httpx.BaseTransport]:
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
        "http://a:8080": Source(source),
        "http://b:8080": Target(target, source),
    }
    monkeypatch.setattr(migrate_run, "stop_of_signals", threading.Event)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(metadata_diff, "AdminClient", lambda url: AdminClient(url, transport=found.get(url)))
    return found


def test_a_plan_is_a_table_with_a_summary_or_json_and_fails_with_a_blocker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PLAN.split()) is ExitCode.DONE
    shown = capsys.readouterr()
    assert "and 2 more" in shown.out
    assert "shop, from A to B: 1 namespaces, 5 topics and partitions, 5 subscriptions" in shown.err
    assert "0 blockers" in shown.err
    assert main([*PLAN.split(), "--output", "json", "--topic", str(TOPICS[0])]) is ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["topics"], found["scope"]) == ("possible", 1, str(TOPICS[0]))
    assert found["counts"]["blocker"] == 0
    assert main([*PLAN.split(), "--namespace", "shop/lacking"]) is ExitCode.FAILED
    assert "1 blockers" in capsys.readouterr().err


def test_errors_name_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code, error in (
        ("--from http://a:8080 --to http://b:8080 --topic persistent://bank/a/b", ExitCode.FAILED, "bank"),
        ("--from http://a:8080 --to nowhere", ExitCode.FAILED, "nowhere"),
        ("--from http://a:8080", ExitCode.USAGE, "--to"),
        ("--from http://127.0.0.1:1 --to http://b:8080", ExitCode.UNREACHABLE, "--from is a profile"),
    ):
        assert main(["migrate", "plan", "shop", *arguments.split()]) is code
        assert error in capsys.readouterr().err


def shown(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*arguments.split(), "--output", "json"]) is ExitCode.DONE
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_migration_runs_until_it_is_ready_and_can_be_abandoned(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    found = shown(RUN, capsys)
    assert (found["scope"], found["from"], found["to"], found["step"]) == ("shop", "A", "B", "ready")
    assert (found["topics"], found["topicsByState"], found["differences"]) == (5, {"agreed": 5}, None)
    assert shown("migrate status shop", capsys) == found
    there = AdminClient("http://b:8080", transport=clusters["http://b:8080"])
    assert there.topics.of_namespace(ORDERS) == TOPICS
    assert main(RUN.split()) is ExitCode.DONE
    assert "magnetar migrate verify" in capsys.readouterr().err
    assert shown(f"migrate abandon shop {SIDES}", capsys)["topicsByState"] == {"restored": 5}
    assert main(["migrate", "status", "shop"]) is ExitCode.DONE
    assert "abandoned" in capsys.readouterr().out
    assert main(f"migrate verify shop {SIDES}".split()) is ExitCode.FAILED
    assert "'abandoned'" in capsys.readouterr().err
    assert main(RUN.split()) is ExitCode.FAILED
    assert "is abandoned\nhint: remove" in capsys.readouterr().err


def test_nothing_is_changed_while_there_are_blockers(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN.split(), "--namespace", "shop/lacking"]) is ExitCode.FAILED
    assert "magnetar migrate plan shop shows them" in capsys.readouterr().err
    there = AdminClient("http://b:8080", transport=clusters["http://b:8080"])
    assert "shop" not in there.tenants.names()
    assert main(["migrate", "status", "shop"]) is ExitCode.FAILED
    assert "there is no migration of shop" in capsys.readouterr().err


def test_a_migration_must_have_begun(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (f"verify shop {SIDES}", f"abandon shop {SIDES}", "status shop"):
        assert main(["migrate", *command.split()]) is ExitCode.FAILED
        assert "there is no migration of shop\nhint: begin it" in capsys.readouterr().err


def test_apache_pulsar_cannot_be_moved_by_this_command(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    service = new_service()
    clusters["http://a:8080"] = PulsarTransport(service)
    assert main(RUN.split()) is ExitCode.FAILED
    assert "the source http://a:8080 is not a cluster of Magnetar" in capsys.readouterr().err
