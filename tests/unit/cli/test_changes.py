"""Reports of changes, and the consent to dangerous ones."""

from __future__ import annotations

import io
import json
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.cli.main import ExitCode, main
from tests.unit.admin.fake_service import FakeSubscription
from tests.unit.cli.fake_cluster import OBS, TOPIC

if TYPE_CHECKING:
    from tests.unit.admin.fake_service import FakeAdminService
    from tests.unit.cli.fake_cluster import Run

PARTITIONED = "persistent://nyc/local/pt"

DANGEROUS = [
    f"topics delete {TOPIC}",
    f"topics delete-partitioned-topic {PARTITIONED}",
    f"topics unsubscribe {TOPIC} -s sub",
    f"topics skip {TOPIC} -s sub -n 2",
    f"topics clear-backlog {TOPIC} -s sub",
    f"topics expire-messages {TOPIC} -s sub -t 1m",
    f"topics reset-cursor {TOPIC} -s sub -m latest",
    f"topics reset-cursor {TOPIC} -s sub -m 3:5",
    f"topics reset-cursor {TOPIC} -s sub -m 3:0 -e",
    f"topics reset-cursor {TOPIC} -s sub -t 1m",
    f"topics skip-entries {TOPIC} --link B --through 3:7",
    f"schemas delete {TOPIC}",
    "namespaces delete nyc/empty",
    "namespaces set-clusters nyc/flights -c A",
    "tenants delete empty",
    "clusters delete C",
]


class Keyboard(io.StringIO):
    """A terminal at which an operator has typed something."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def stage(service: FakeAdminService, run: Run) -> FakeAdminService:
    """A cluster in which each dangerous command has something to lose."""
    run("namespaces create nyc/empty")
    run("namespaces create nyc/local")
    run(f"topics create-partitioned-topic {PARTITIONED} -p 2")
    run("tenants create empty")
    run("clusters create C")
    return service


def state(run: Run) -> Any:  # noqa: ANN401 - any JSON value
    """Return all that a dangerous command of this module may change."""
    return [
        run("clusters list"),
        run("tenants list"),
        run("namespaces list nyc"),
        run("namespaces get-clusters nyc/flights"),
        run("topics list nyc/flights"),
        run("topics list nyc/local"),
        [each["markDeletePosition"] for each in run(f"topics stats-internal {TOPIC}")["cursors"].values()],
    ]


@pytest.mark.parametrize("line", DANGEROUS)
def test_without_a_terminal_a_dangerous_command_is_refused(
    line: str, stage: FakeAdminService, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(run)
    assert main([*line.split(), "-o", "json"]) is ExitCode.FAILED
    told = json.loads(capsys.readouterr().err)
    assert told["error"].startswith("this would ")
    assert "http://localhost:8080" in told["error"]
    option = told["hint"].rpartition(" ")[2]
    assert option in {"--force", "--yes"}
    assert state(run) == before
    assert stage.topics.held[OBS].skipped == []
    run(f"{line} {option}")


def test_the_operator_answers_at_a_terminal(
    stage: FakeAdminService, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for answer, code, topics in (("n\n", ExitCode.FAILED, 1), ("\n", ExitCode.FAILED, 1), ("y\n", ExitCode.DONE, 0)):
        monkeypatch.setattr(sys, "stdin", Keyboard(answer))
        assert main(["topics", "delete", TOPIC]) is code
        told = capsys.readouterr().err
        assert f"this would delete {TOPIC}, in http://localhost:8080\n" in told
        assert "subscription sub has 10 unacknowledged entries\n" in told
        assert "Continue? [y/N]" in told
        assert len(run("topics list nyc/flights")) == topics


@pytest.mark.parametrize(
    "line",
    [
        f"topics reset-cursor {TOPIC} -s sub -m earliest",
        f"topics reset-cursor {TOPIC} -s sub -m 3:5",
        f"topics reset-cursor {TOPIC} -s sub -m 3:6",
        f"topics reset-cursor {TOPIC} -s sub -m 3:5 -e",
        f"topics reset-cursor {TOPIC} -s new -m 3:0",
        f"topics reset-cursor {TOPIC} -s done -m latest",
        "namespaces set-clusters nyc/flights -c A,B,C",
    ],
)
def test_a_command_that_loses_nothing_does_not_ask(line: str, stage: FakeAdminService, run: Run) -> None:
    stage.topics.held[OBS].subscriptions["sub"].position = Position(3, 5)
    stage.topics.held[OBS].subscriptions["done"] = FakeSubscription(Position(3, 9))
    stage.topics.held[OBS].subscriptions["new"] = FakeSubscription(EARLIEST)
    run("tenants update nyc -c A,B,C")
    run(line)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("topics delete nyc/flights/none", 404),
        ("topics delete-partitioned-topic nyc/flights/none", 404),
        (f"topics delete {PARTITIONED}", 409),
        (f"topics unsubscribe {TOPIC} -s none", 404),
        (f"topics skip {TOPIC} -s none -n 1", 404),
        (f"topics clear-backlog {TOPIC} -s none", 404),
        (f"topics reset-cursor {TOPIC} -s none -m latest", 404),
        ("namespaces delete nyc/none", 404),
        ("tenants delete none", 404),
        ("clusters delete none", 404),
    ],
)
def test_a_missing_object_is_reported_at_once(
    line: str, status: int, stage: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line.split(), "-o", "json"]) is ExitCode.FAILED
    assert json.loads(capsys.readouterr().err)["status"] == status


def test_a_topic_that_cannot_be_loaded_can_be_deleted(
    stage: FakeAdminService, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(*_: object) -> None:
        raise AdminError(HTTPStatus.INTERNAL_SERVER_ERROR, "its log is damaged")

    monkeypatch.setattr(stage.topics, "stats", refuse)
    assert main(["topics", "delete", TOPIC]) is ExitCode.FAILED
    assert "its contents are unknown: its log is damaged" in capsys.readouterr().err
    assert run(f"topics delete {TOPIC} --force")["before"] == {"unknown": "its log is damaged"}


def test_a_reset_of_a_partitioned_topic_looks_at_each_partition(stage: FakeAdminService, run: Run) -> None:
    entries = stage.topics.held[OBS].entries
    for index, mark in enumerate((9, 3)):
        part = stage.topics.held[TopicName.parse(PARTITIONED).partition(index)]
        part.entries = entries
        part.subscriptions["sub"] = FakeSubscription(Position(3, mark))
    assert main(f"topics reset-cursor {PARTITIONED} -s sub -t 1m".split()) is ExitCode.FAILED


@pytest.mark.parametrize(
    ("line", "field", "before", "after"),
    [
        ("namespaces set-message-ttl nyc/flights -ttl 90s", "message-ttl", None, 90),
        (
            "namespaces set-backlog-quota nyc/flights -l 1K -p producer_exception",
            "backlog-quota destination_storage",
            None,
            {"limit": 1024, "limitSize": 1024, "limitTime": -1, "policy": "producer_exception"},
        ),
        ("namespaces set-clusters nyc/flights -c B --force", "clusters", ["A", "B"], ["B"]),
        (
            "namespaces set-is-allow-auto-update-schema nyc/flights --disable",
            "is-allow-auto-update-schema",
            True,
            False,
        ),
        (
            "tenants update nyc -r admin",
            "tenant",
            {"adminRoles": [], "allowedClusters": ["A", "B"]},
            {"adminRoles": ["admin"], "allowedClusters": ["A", "B"]},
        ),
        (f"topics update-partitioned-topic {PARTITIONED} -p 3", "partitions", 2, 3),
        (
            f"topics skip {TOPIC} -s sub -n 4 --force",
            "subscription sub",
            {"backlog": 10, "consumers": 0, "markDeletePosition": "3:-1"},
            {"backlog": 6, "consumers": 0, "markDeletePosition": "3:3"},
        ),
        (
            f"topics set-replicated-subscription-status {TOPIC} -s sub --enable",
            "replication of subscription sub",
            {TOPIC: False},
            {TOPIC: True},
        ),
        (f"topics unload {TOPIC}", "topic", "loaded", "unloaded"),
        ("topics create nyc/flights/new", "topic", None, {"partitions": 0}),
        (
            f"topics delete {TOPIC} --yes",
            "topic",
            {"storageSize": 0, "producers": 0, "consumers": 0, "backlogs": {"sub": 10}},
            None,
        ),
        ("namespaces create nyc/n", "namespace", None, {"clusters": ["A"]}),
    ],
)
def test_a_change_is_reported_with_both_values(
    line: str, field: str, before: object, after: object, stage: FakeAdminService, run: Run
) -> None:
    told = run(line)
    assert (told["field"], told["before"], told["after"]) == (field, before, after)
    assert told["subject"]


def test_the_text_of_a_change(service: FakeAdminService, capsys: pytest.CaptureFixture[str]) -> None:
    for line, told in (
        ("namespaces set-message-ttl nyc/flights -ttl 90s", "message-ttl of nyc/flights: 90 (was not set)"),
        ("namespaces set-message-ttl nyc/flights -ttl 90s", "message-ttl of nyc/flights: 90 (unchanged)"),
        ("namespaces remove-message-ttl nyc/flights", "message-ttl of nyc/flights: not set (was 90)"),
        (f"topics delete {TOPIC} --force", f"deleted topic {TOPIC}"),
    ):
        assert main(line.split()) is ExitCode.DONE
        assert capsys.readouterr().err == f"{told}\n"
