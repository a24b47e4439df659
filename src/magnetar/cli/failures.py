"""Errors of commands as the user sees them: text or JSON on stderr, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from magnetar.cli.output import Output, say, say_json

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNDECIDED = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """One error."""

    code: ExitCode
    message: str
    hint: str = ""
    url: str | None = None
    """Admin URL of the cluster that refused or did not answer."""
    status: int | None = None
    """HTTP status of a refusal."""

    @classmethod
    def of_text(cls, text: str, code: ExitCode, hint: str = "") -> Failure:
        """Return the failure of an error text, which can contain a hint of its own on a later line: ``hint: …``."""
        message, _, own_hint = text.partition("\nhint: ")
        return cls(code, message, own_hint or hint)

    def show(self, output: Output) -> ExitCode:
        """Print the failure to stderr and return its exit code."""
        if output is Output.JSON:
            fields = {
                "error": self.message,
                "hint": self.hint or None,
                "url": self.url,
                "status": self.status,
                "exitCode": self.code.value,
            }
            say_json(**{name: value for name, value in fields.items() if value is not None})
        else:
            say(f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else ""))
        return self.code


class FailedError(Exception):
    """A command failed in a known way."""

    def __init__(self, failure: Failure) -> None:
        """Keep the failure."""
        super().__init__(failure.message)
        self.failure = failure


def requested_output(arguments: Sequence[str]) -> Output:
    """Return the output format that ``arguments`` ask for, whether or not the rest of them can be read."""
    words = list(arguments)
    if "--" in words:
        del words[words.index("--") :]
    found = Output.TEXT
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word in ("--output", "-o"):
            value = following
        elif word.startswith("--output="):
            value = word.removeprefix("--output=")
        elif word.startswith("-o"):
            value = word.removeprefix("-o")
        else:
            continue
        found = Output.JSON if value == Output.JSON else Output.TEXT
    return found
