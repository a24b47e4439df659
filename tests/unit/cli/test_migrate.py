"""``magnetar migrate``."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.cli import metadata_diff, migrate_cleanup, migrate_run, migrate_switch
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import ClusterData
from magnetar.migration.machine.journal import Journal
from magnetar.migration.machine.records import StageMoved
from magnetar.migration.machine.tables import StageEvent
from tests.unit.admin.fake_clusters import PulsarTransport, client_of
from tests.unit.admin.fake_service import FakeSubscription, FakeTopic, new_service
from tests.unit.migration.linked_clusters import Source, Target

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

SIDES = "--from http://a:8080 --to http://b:8080"
PLAN = f"migrate plan shop {SIDES}"
RUN = f"migrate run shop {SIDES}"
SWITCH = f"migrate switch shop {SIDES}"
ROLLBACK = f"migrate rollback shop {SIDES}"
CLEANUP = f"migrate cleanup shop {SIDES}"
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
    for module in (migrate_run, migrate_switch, migrate_cleanup):
        monkeypatch.setattr(module, "stop_of_signals", threading.Event)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(metadata_diff, "AdminClient", lambda url: AdminClient(url, transport=found.get(url)))
    monkeypatch.setattr(migrate_cleanup, "synchronized_with", lambda _: [])
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
    commands = ["verify", "abandon", "switch", "rollback", "cleanup"]
    for command in (*(f"{each} shop {SIDES}" for each in commands), "status shop"):
        assert main(["migrate", *command.split()]) is ExitCode.FAILED
        assert "there is no migration of shop\nhint: begin it" in capsys.readouterr().err


def verified() -> None:
    """Note a verification without a difference; it has tests of its own."""
    journal = Journal(SystemFiles(), migrate_run.directory_of("shop", None), SystemClock())
    journal.append(StageMoved(StageEvent.VERIFIED, 0))
    journal.close()


def routes(clusters: dict[str, httpx.BaseTransport]) -> list[dict[str, str]]:
    """Return the routes of both clusters."""
    found = [AdminClient(url, transport=clusters[url]).routes.all() for url in clusters]
    return [{each["scope"]: each["cluster"] for each in listed} for listed in found]


def test_clients_are_switched_and_returned(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    shown(RUN, capsys)
    assert main(SWITCH.split()) is ExitCode.FAILED
    assert "was not verified\nhint: magnetar migrate verify" in capsys.readouterr().err
    verified()
    found = shown(SWITCH, capsys)
    assert (found["step"], found["topics"], found["redelivered_unacknowledged"]) == ("switched", 5, 0)
    assert (found["unavailable_ms"]["measured"], found["unavailable_ms"]["unmeasured"], found["released"]) == (5, 0, [])
    assert found["unavailable_ms"]["p99"] >= found["unavailable_ms"]["p50"] > 0
    assert routes(clusters) == [{"shop": "B"}] * 2
    assert main(RUN.split()) is ExitCode.FAILED
    assert "in the step 'switched'\nhint: continue it with: magnetar migrate switch" in capsys.readouterr().err
    assert main(f"migrate rollback shop {SIDES} --parallel 17".split()) is ExitCode.USAGE
    assert "--parallel" in capsys.readouterr().err
    assert main(f"migrate rollback shop {SIDES} --parallel 1".split()) is ExitCode.DONE
    assert "unavailable_ms p99" in capsys.readouterr().out
    assert shown("migrate status shop", capsys)["step"] == "ready"
    assert routes(clusters) == [{"shop": "A"}] * 2


def test_released_topics_are_named_with_the_reason(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    source = clusters["http://a:8080"]
    assert isinstance(source, Source)
    shown(RUN, capsys)
    verified()
    source.stuck, source.stuck_topic = 3, "t2"
    line = [*SWITCH.split(), "--topic-timeout", "0.2", "--acknowledgement-timeout", "0"]
    assert main([*line, "--output", "json"]) is ExitCode.FAILED
    released = [{"topic": str(TOPICS[2]), "reason": f"{TOPICS[2]}: 3 entries are not confirmed by B"}]
    assert json.loads(capsys.readouterr().out)["released"] == released
    assert shown("migrate status shop", capsys)["released"] == {each["topic"]: each["reason"] for each in released}
    assert main(line) is ExitCode.FAILED
    assert f"released: {TOPICS[2]}: {TOPICS[2]}: 3 entries" in capsys.readouterr().err
    source.stuck = 0
    assert shown(f"{SWITCH} --topic {TOPICS[2]}", capsys)["topics"] == 1
    assert shown(SWITCH, capsys)["step"] == "switched"


def test_options_that_leave_no_time_or_name_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWITCH.split(), "--topic-timeout", "1", "--acknowledgement-timeout", "2"]) is ExitCode.FAILED
    assert "--acknowledgement-timeout 2 is not below --topic-timeout 1" in capsys.readouterr().err
    shown(RUN, capsys)
    assert main([*SWITCH.split(), "--topic", "persistent://shop/orders/lacking"]) is ExitCode.FAILED
    assert "persistent://shop/orders/lacking is no topic of the migration" in capsys.readouterr().err


def test_a_clean_up_shows_first_and_deletes_then(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    shown(RUN, capsys)
    assert main(CLEANUP.split()) is ExitCode.FAILED
    assert "in the step 'ready'\nhint: it can be cleaned up when it is switched" in capsys.readouterr().err
    verified()
    shown(SWITCH, capsys)
    assert main(CLEANUP.split()) is ExitCode.FAILED
    asked = capsys.readouterr().err
    for words in ("delete shop in A", "5 topics and partitions", "shop/orders", "a rollback is not possible any more"):
        assert words in asked
    here = AdminClient("http://a:8080", transport=clusters["http://a:8080"])
    assert here.topics.of_namespace(ORDERS) == TOPICS
    assert shown(f"{CLEANUP} --force", capsys)["step"] == "done"
    assert here.topics.of_namespace(ORDERS) == []
    assert routes(clusters) == [{"shop": "B"}] * 2
    assert shown(f"{CLEANUP} --force", capsys)["step"] == "done"


def test_apache_pulsar_is_no_target(
    clusters: dict[str, httpx.BaseTransport], capsys: pytest.CaptureFixture[str]
) -> None:
    clusters["http://b:8080"] = PulsarTransport(new_service())
    assert main(RUN.split()) is ExitCode.FAILED
    assert "the target http://b:8080 is Apache Pulsar" in capsys.readouterr().err
