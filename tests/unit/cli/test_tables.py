"""All tables fit a terminal of 80 columns, and lose no text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.cli.main import ExitCode, main
from magnetar.cli.output import show_fields, show_table
from magnetar.cli.pipeline import progress_table
from magnetar.pipeline.driver.progress import LinkProgress
from magnetar.pipeline.driver.replicate import Progress
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 80
TOPIC = TopicName.parse("persistent://nyc/flights/departures-of-all-airlines-partition-12")
SUBSCRIPTION = "billing-and-accounting-of-the-whole-company"


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


@pytest.fixture
def wide(service: FakeAdminService) -> FakeAdminService:
    """A cluster whose names are long."""
    subscription = FakeSubscription(Position(3, -1), replicated=True)
    service.topics.held[TOPIC] = FakeTopic([b"x"] * 10, {SUBSCRIPTION: subscription, "s": subscription})
    return service


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("clusters get A", ["serviceUrl", "http://127.0.0.1:18080"]),
        ("tenants get nyc", ["allowedClusters"]),
        ("namespaces policies nyc/flights", ["backlog_quota_map"]),
        (f"topics stats {TOPIC}", [SUBSCRIPTION, "replication to"]),
        (f"topics stats-internal {TOPIC}", [SUBSCRIPTION, "lastConfirmedEntry"]),
        (f"topics lookup {TOPIC}", ["pulsar://127.0.0.1:16650"]),
        ("subscriptions list nyc/flights", [str(TOPIC), SUBSCRIPTION, "unacknowledged"]),
        (f"subscriptions stats {TOPIC}", [SUBSCRIPTION, "without exact progress in"]),
        (f"subscriptions protection {TOPIC}", [SUBSCRIPTION, "progress link"]),
        (f"subscriptions holes {TOPIC}", [SUBSCRIPTION, "(3:4..3:6]"]),
        ("topics peek-messages persistent://nyc/flights/obs -s sub -n 2", ["3:1"]),
        ("brokers get-runtime-config", ["allowAutoTopicCreationType"]),
    ],
)
def test_the_output_of_a_command_fits(
    line: str, words: list[str], wide: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) is ExitCode.DONE
    check(capsys.readouterr().out, words)


def test_schemas_fit(wide: FakeAdminService, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.json"
    fields = [{"name": f"field_{index}", "type": "string"} for index in range(20)]
    definition = json.dumps({"type": "record", "name": "Flight", "fields": fields})
    file.write_text(json.dumps({"type": "AVRO", "schema": definition}))
    assert main(["schemas", "upload", str(TOPIC), "-f", str(file)]) is ExitCode.DONE
    assert main(["schemas", "get", str(TOPIC), "-a"]) is ExitCode.DONE
    check(capsys.readouterr().out, ["AVRO", "field_19"])


def test_profiles_fit(capsys: pytest.CaptureFixture[str]) -> None:
    urls = ("http://broker-of-the-east-coast.example.com:8080", "pulsar://broker-of-the-east-coast.example.com:6650")
    assert main(["profiles", "set", "ewr", "--admin-url", urls[0], "--service-url", urls[1]]) is ExitCode.DONE
    assert main(["profiles", "list"]) is ExitCode.DONE
    check(capsys.readouterr().out, [*urls, "ewr"])


def test_the_report_of_the_demo_fits(capsys: pytest.CaptureFixture[str]) -> None:
    sent = "336,780 (4 sent twice by their producer)"
    what = "planned switch ewr to jfk: redelivered, unacknowledged"
    show_table(
        [{"what": what, "result": sent, "bound": "336,776 flights"}, {"what": "lost", "result": "0", "bound": "0"}]
    )
    shown = capsys.readouterr().out
    check(shown, ["336,780", "unacknowledged", "flights"])
    assert sorted(words_of(shown)) == sorted(f"what result bound {what} {sent} 336,776 flights lost 0 0".split())


def test_the_progress_of_the_pipeline_fits() -> None:
    links = (LinkProgress("newark-liberty", "john-f-kennedy", 12_345, 1_234_567_890, 98_765.4, 1_234_567, 12_345.6),)
    console = Console(width=WIDTH)
    with console.capture() as capture:
        console.print(progress_table(Progress(links, ()), WIDTH))
    check(capture.get(), ["1,234,567,890", "12,345.6"])


def test_texts_wrap_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    why = "the progress link is down, and the cluster has confirmed nothing since an hour or more"
    show_table([{"topic": str(TOPIC), "why": why}] * 2)
    shown = capsys.readouterr().out
    check(shown, [str(TOPIC)])
    assert shown.count("confirmed") == 2


def test_columns_without_text_are_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([{"a": 1, "b": "", "c": None}, {"a": 2, "b": "", "c": None}])
    assert words_of(capsys.readouterr().out) == ["a", "c", "1", "-", "2", "-"]


def test_a_long_value_is_wrapped_beside_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"name": "x", "value": "y" * 100})
    assert capsys.readouterr().out.split() == ["name", "x", "value", "y" * 73, "y" * 27]


def words_of(shown: str) -> list[str]:
    """Return all words but the rule."""
    return [word for word in shown.split() if not word.startswith("─")]


def check(shown: str, words: list[str]) -> None:
    """Check that no line is too long and all ``words`` are whole."""
    assert shown
    assert [line for line in shown.splitlines() if len(line) > WIDTH] == []
    folded = "".join(shown.split())  # a word that is too long for a line
    assert [word for word in words if word not in shown and word not in folded] == []
    assert "…" not in shown


def test_control_characters_of_messages_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([{"messageId": "1:0", "payload": "\x1b[2Jred\x00\x9b1m"}])
    show_fields({"payload": "\x1b[2J", "schema": "a\n\tb"})
    shown = capsys.readouterr().out
    assert r"\x1b[2Jred\x00\x9b1m" in shown
    assert r"payload  \x1b[2J" in shown
    assert r"\x09" not in shown
    assert "\x1b" not in shown
