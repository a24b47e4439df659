"""A shell in which the commands of a page run, one after the other."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.guides.page import Block


class Shell:
    """One bash with its variables and its directory. Texts of a page are replaced before they run."""

    def __init__(self, directory: Path, replaced: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Start it in ``directory``. ``replaced`` maps regular expressions to replacements, in this order."""
        self._replaced = dict(replaced)
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        """Return the shell, which ends at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the shell."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def adapted(self, text: str) -> str:
        """Return a text of the page with its replacements."""
        for old, new in self._replaced.items():
            text = re.sub(old, new.replace("\\", r"\\"), text)
        return text

    def run(self, command: str) -> str:
        """Run a command and return its output; raises AssertionError with the output if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        end = secrets.token_hex(8)
        self._process.stdin.write(f"{self.adapted(command)}\necho {end} $?\n")
        self._process.stdin.flush()
        output = ""
        for line in self._process.stdout:
            text, found, status = line.partition(end)
            output += text
            if found:
                assert status.strip() == "0", f"{command}\n{output}"
                return output
        message = f"the shell ended in: {command}\n{output}"
        raise AssertionError(message)

    def follow(self, blocks: Iterable[Block]) -> None:
        """Run blocks and compare each output with that of the page. Blocks of Python run in this process."""
        for block in blocks:
            if block.reason is not None:
                continue
            if block.language == "python":
                exec(compile(self.adapted(block.text), block.section, "exec"), {})
            elif block.language == "console":
                for command in block.commands():
                    require_output(command.text, self.run(command.text), self.adapted("\n".join(command.output)))


def require_output(command: str, output: str, expected: str) -> None:
    """Raise AssertionError unless ``output`` has the ``expected`` lines, in this order."""
    rest = iter(_words(line) for line in output.splitlines())
    for line in filter(None, map(_words, expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(pattern.fullmatch(each) for each in rest), f"{command}\nlacks: {line}\nprinted:\n{output}"


def _words(line: str) -> str:
    return " ".join(line.split())
