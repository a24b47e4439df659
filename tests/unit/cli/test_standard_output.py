"""Commands whose output cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from errno import ENOSPC
from io import StringIO
from pathlib import Path

import pytest

from magnetar.cli.pipeline import _json_lines
from magnetar.cli.standard_output import OutputError, checked_output
from magnetar.pipeline.driver.replicate import Ready

COMMAND = [sys.executable, "-m", "magnetar.cli.main"]
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
LINES = ["--version", "--help", "broker --list-settings", "simulate --seed 5 --steps 1 -o json"]


@pytest.mark.parametrize("line", LINES)
def test_a_full_disk_is_reported_in_one_line(line: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, *line.split()]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=BUFFERED)
    message = "cannot write the output: No space left on device"
    is_json = "json" in line
    assert done.stderr == (json.dumps({"error": message, "exitCode": 1}) if is_json else f"error: {message}") + "\n"
    assert done.returncode == 1


@pytest.mark.parametrize("line", LINES)
def test_nothing_is_reported_to_the_reader_of_a_pipe_that_is_gone(line: str) -> None:
    command = [*COMMAND, *line.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=BUFFERED) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.parametrize("line", LINES)
def test_a_closed_stdout_is_the_null_device(line: str) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *line.split()]
    done = subprocess.run(shell, check=False, stderr=subprocess.PIPE, text=True, env=BUFFERED)
    assert (done.stderr, done.returncode) == ("", 0)


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    code = (
        "from magnetar.cli.standard_output import open_closed_streams as o; o(); print(open('/dev/zero').fileno() > 2)"
    )
    shell = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(shell, check=True, capture_output=True, text=True).stdout == "True\n"


class Full(StringIO):
    def write(self, text: str) -> int:
        raise OSError(ENOSPC, text)


def test_replication_continues_when_the_disk_of_its_progress_is_full() -> None:
    with redirect_stdout(Full()), checked_output():
        _json_lines()(Ready())
        with pytest.raises(OutputError):
            sys.stdout.write("anything else")
