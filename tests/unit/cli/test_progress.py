from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.cli import progress as shown
from magnetar.cli.progress import progress

if TYPE_CHECKING:
    import pytest


def told(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, int, int]]:
    return [tuple(json.loads(line).values()) for line in capsys.readouterr().err.splitlines()]


def test_work_that_is_soon_done_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("checking", ("segments", "topics")) as tell:
        for done in range(1, 1001):
            tell("segments", done, 1000)
    assert told(capsys) == []


def test_without_a_terminal_a_line_comes_each_time_the_interval_is_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "INTERVAL_S", 0.0)
    with progress("checking", ("topics",)) as tell:
        tell("topics", 1, 3)
        tell("topics", 2, 3)
    assert told(capsys) == [("checking", "topics", 1, 3), ("checking", "topics", 2, 3)]


def test_on_a_terminal_there_are_bars(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress("checking", ("topics",)) as tell:
        tell("topics", 2, 3)
    assert "topics" in capsys.readouterr().err
