"""Apache Pulsar's ``pulsar-admin``, with all commands in one virtual machine, because its start takes seconds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.kit.pulsar_jars import admin_tool_jars, java, pulsar_jars

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = Path(__file__).parents[1] / "clients" / "PulsarAdmin.java"

NO_BROKER = "http://127.0.0.1:1"


class Answer(NamedTuple):
    """The result of a command."""

    exit: int
    output: str
    errors: str


class AdminTool:
    """The tool; its context manager ends the virtual machine. Raises PulsarUnavailableError if it cannot be run."""

    def __init__(self, log: Path) -> None:
        """Start it; the virtual machine writes to ``log``."""
        path = f"{pulsar_jars()}/*:{admin_tool_jars()}/*"
        command = [java(), "-Xmx400m", "-cp", path, str(SOURCE)]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._log = log

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the program, which does so at the end of its input."""
        self._process.communicate()

    def help(self, words: str) -> str:
        """Return the help of the tool, of a noun or of a command."""
        answer = self.run(NO_BROKER, [*words.split(), "--help"])
        return answer.output or answer.errors  # a command without --help prints it as an error

    def run(self, admin_url: str, arguments: Sequence[str]) -> Answer:
        """Run a command for the broker at ``admin_url``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"url": admin_url, "arguments": list(arguments)}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._log.read_text(errors="replace")
        return Answer(**json.loads(line))
