"""The log of a broker's process."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from contextlib import suppress
from errno import ENOSPC
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import ConfigurationError
from magnetar.base.logs.rotated_output import RETRY_SECONDS
from magnetar.broker.settings.sections.log import LogSettings
from magnetar.cli.broker_log import ForwardToLog, RotatedFile, StandardError, configure_log
from magnetar.cli.main import ExitCode, main

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = """\
import logging, sys, threading, time, warnings
import structlog
from magnetar.base.logs.log_limit import LogLimit
from magnetar.broker.settings.sections.log import LogSettings
from magnetar.cli.broker_log import configure_log

configure_log(LogSettings.model_validate_json(sys.argv[1]), LogLimit(time.monotonic))
log = structlog.get_logger()
log.debug("detail")
log.info("started", port=1)
warnings.warn("old", FutureWarning)
logging.getLogger("library").error("broken: %s", "disk")

def fail():
    raise KeyError("in a thread")

thread = threading.Thread(target=fail, name="worker")
thread.start()
thread.join()

class Fragile:
    def __del__(self):
        raise OSError("at the end")

Fragile()
raise ValueError("of the process")
"""


def lines(**settings: object) -> list[str]:
    """Return the lines on stderr of a process in which many things go wrong."""
    command = [sys.executable, "-W", "always", "-c", EVENTS, json.dumps(settings)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_all_lines_are_json_if_json_is_selected() -> None:
    found: list[dict[str, Any]] = [json.loads(line) for line in lines(logFormat="json")]
    assert [(line["event"], line["level"]) for line in found] == [
        ("started", "info"),
        ("library_log", "warning"),
        ("library_log", "error"),
        ("uncaught_exception", "critical"),
        ("unraisable_exception", "error"),
        ("uncaught_exception", "critical"),
    ]
    assert "FutureWarning: old" in found[1]["message"]
    assert found[2]["message"] == "broken: disk"
    assert (found[3]["thread"], found[3]["error"]) == ("worker", "KeyError('in a thread')")
    assert "Traceback" in found[5]["exception"]


def test_lines_below_the_level_are_not_written() -> None:
    assert [json.loads(line)["event"] for line in lines(logFormat="json", logLevel="error")] == [
        "library_log",
        "uncaught_exception",
        "unraisable_exception",
        "uncaught_exception",
    ]
    assert json.loads(lines(logLevel="debug")[0])["event"] == "detail"


def test_text_has_no_colours_outside_of_a_terminal() -> None:
    (started, *_) = lines(logFormat="text")
    assert "started" in started
    assert "\x1b" not in started


def test_all_lines_are_in_the_file_if_there_is_one(tmp_path: Path) -> None:
    assert lines(logFile=str(tmp_path / "broker.log")) == []
    found = [json.loads(line)["event"] for line in (tmp_path / "broker.log").read_text().splitlines()]
    assert (found[0], found[-1], len(found)) == ("started", "uncaught_exception", 6)


def test_the_file_is_rotated_and_old_ones_are_removed(tmp_path: Path) -> None:
    logger = RotatedFile(LogSettings(logFile=str(tmp_path / "broker.log"), logFileMaxMB=1, logFilesKept=2))()
    count = 4 * 1024
    for number in range(count):
        logger.msg(f"{number:05} {'x' * 1017}")
    logger.close()
    names = ["broker.log.2", "broker.log.1", "broker.log"]
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(names)
    numbers = [int(line.split()[0]) for name in names for line in (tmp_path / name).read_text().splitlines()]
    assert numbers == [*range(numbers[0], count)]
    assert all((tmp_path / name).stat().st_size <= 1 << 20 for name in names)


def test_a_file_that_cannot_be_rotated_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because the broker may write the file, but not rename it."""

    now = 0.0
    attempts = 0

    def refuse(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise PermissionError

    settings = LogSettings(logFile=str(tmp_path / "broker.log"), logFileMaxMB=1, logFilesKept=2)
    logger = RotatedFile(settings, lambda: now)()
    with monkeypatch.context() as patch:
        patch.setattr("os.rename", refuse)
        for number in range(1030):
            logger.msg(f"{number:05} {'x' * 1017}")
    assert attempts == 1
    now += RETRY_SECONDS
    lines = (tmp_path / "broker.log").read_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == [*range(1030)]
    logger.msg("rotated")
    logger.close()
    assert (tmp_path / "broker.log").read_text() == "rotated\n"
    assert (tmp_path / "broker.log.1").read_text().splitlines() == lines


def test_lines_that_cannot_be_written_are_reported_once_in_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    logger = RotatedFile(LogSettings(logFile="/dev/full"), lambda: now)()
    for _ in range(3):
        logger.msg("line")
    report = {"event": "log_not_written", "file": "/dev/full", "error": "[Errno 28] No space left on device"}
    assert list(map(json.loads, capsys.readouterr().err.splitlines())) == [report]
    now += RETRY_SECONDS
    logger.msg("line")
    assert json.loads(capsys.readouterr().err) == report
    with suppress(OSError):
        logger.close()


class Broken(StringIO):
    def write(self, text: str) -> int:
        raise OSError(ENOSPC, text)


def test_a_broker_outlives_the_reader_of_its_log_and_a_full_disk() -> None:
    StandardError(Broken())().info("line")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot write logFile .*: No such file or directory"):
        configure_log(LogSettings(logFile=str(tmp_path / "absent" / "broker.log")), lambda *_: {})


@pytest.mark.parametrize(
    ("level", "name"), [(5, "info"), (25, "info"), (logging.WARNING, "warning"), (45, "error"), (99, "critical")]
)
def test_lines_of_libraries_keep_their_level_or_get_the_next_lower_one(level: int, name: str) -> None:
    with capture_logs() as logs:
        ForwardToLog().handle(logging.LogRecord("library", level, __file__, 1, "%s\n", ("text",), None))
    (line,) = logs
    assert (line["log_level"], line["logger"], line["message"]) == (name, "library", "text")


def test_the_reason_why_a_broker_does_not_start_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = ("--logFormat", "json", "--dataDirectory", str(tmp_path / "file" / "data"))
    command = [sys.executable, "-m", "magnetar.cli.main", "broker", *settings]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    (failed,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, failed["event"], failed["level"]) == (1, "broker_failed", "critical")
    assert "cannot use dataDirectory" in failed["error"]


@pytest.mark.parametrize("source", ["flag", "variable", "file"])
def test_the_problems_of_a_configuration_are_json_too(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerServicePort=70000\nnoSuchKey=secret\nauthorizationProvider=other\n")
    flags: tuple[str, ...] = ()
    if source == "flag":
        flags = ("--logFormat", "json")
    elif source == "variable":
        monkeypatch.setenv("MAGNETAR_logFormat", "json")
    else:
        file.write_text(file.read_text() + "logFormat=json\n")
    assert main(["broker", "--config", str(file), *flags]) == ExitCode.FAILED
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["level"], line["error"]) == (
        "configuration_invalid",
        "critical",
        "invalid configuration",
    )
    assert sorted(problem.partition(":")[0].partition("=")[0] for problem in line["problems"]) == [
        "authorizationProvider",
        "brokerServicePort",
        "noSuchKey",
    ]
    assert "--acknowledge-ignored" in line["hint"]


def test_a_file_that_cannot_be_read_is_reported_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none = tmp_path / "none.conf"
    assert main(["broker", "--config", str(none), "--logFormat=json", "--check-config"]) == ExitCode.FAILED
    assert str(none) in json.loads(capsys.readouterr().err)["error"]
    assert main(["broker", "--config", str(none), "--logFormat=text"]) == ExitCode.FAILED
    assert capsys.readouterr().err.startswith("error: ")
