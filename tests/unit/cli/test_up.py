"""Profiles and progress of ``magnetar up``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from magnetar.cli.profile_store import Profile, Profiles, load_profiles, profiles_file, save_profiles
from magnetar.cli.start_steps import StartSteps
from magnetar.cli.up import add_profiles
from magnetar.ops.layout import lay_out
from magnetar.ops.local_clusters import StartStep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_its_clusters_become_profiles_and_those_of_others_stay(tmp_path: Path) -> None:
    production = Profile("https://ewr.example")
    save_profiles(Profiles({"ewr": production, "jfk": Profile("http://127.0.0.1:16661")}, "ewr"))
    told = add_profiles(lay_out(["ewr", "jfk", "lga"], tmp_path, 16650))
    assert load_profiles() == Profiles(
        {
            "ewr": production,
            "jfk": Profile("http://127.0.0.1:16661", "pulsar://127.0.0.1:16660"),
            "lga": Profile("http://127.0.0.1:16671", "pulsar://127.0.0.1:16670"),
        },
        "ewr",
    )
    assert told[0].endswith("--cluster jfk")
    assert told[1].endswith(
        "magnetar profiles set ewr --admin-url http://127.0.0.1:16651 --service-url pulsar://127.0.0.1:16650"
    )


def test_profiles_that_cannot_be_read_are_reported_and_kept(tmp_path: Path) -> None:
    profiles_file().parent.mkdir()
    profiles_file().write_text("{")
    (told,) = add_profiles(lay_out(["ewr"], tmp_path, 16650))
    assert str(profiles_file()) in told
    assert profiles_file().read_text() == "{"


def test_steps_are_json_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with StartSteps() as steps:
        steps.show(StartStep("Spark"))
        steps.show(StartStep("Spark", 1.23456))
    steps.tell("jfk restarted")
    assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == [
        {"event": "starting", "step": "Spark"},
        {"event": "started", "step": "Spark", "seconds": 1.235},
        {"event": "message", "message": "jfk restarted"},
    ]


def test_steps_are_lines_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with StartSteps() as steps:
        steps.show(StartStep("broker ewr"))
        steps.show(StartStep("Spark"))
        steps.show(StartStep("broker ewr", 0.91))
    shown = capsys.readouterr().err
    assert "ready after 0.9 s" in shown
    assert "starting" in shown
