"""The commands of ``pulsar-admin``, from its own help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Help = Callable[[str], str]
    """Returns the help of the tool, of a noun or of a command, given its words."""

_OPTIONAL = re.compile(r"\[[^][]*\](\.\.\.)?")
_PARAMETER = re.compile(r"(?:(?P<option>--?[\w-]+)=)?<(?P<label>[^>]+)>")
_LISTED = re.compile(r"^  ([\w-]+)(?:, [\w-]+)*  +", re.MULTILINE)
_SUBCOMMANDS = re.compile(r"^Commands:$(.*)", re.MULTILINE | re.DOTALL)


class Parameter(NamedTuple):
    """A required option, or a positional argument."""

    option: str
    """Empty for a positional argument."""
    label: str
    """The name of the value in the help."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its required parameters in the order of the help."""

    noun: str
    verb: str
    parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        """Return noun and verb."""
        return f"{self.noun} {self.verb}"


def commands(help_of: Help) -> Iterator[Command]:
    """Yield all commands of all nouns that the help shows, in its order."""
    for noun in subcommands(help_of("")):
        for verb in subcommands(help_of(noun)):
            yield Command(noun, verb, required(help_of(f"{noun} {verb}")))


def subcommands(text: str) -> list[str]:
    """Return the names in the list of a help text, without other names of the same command."""
    found = _SUBCOMMANDS.search(text)
    return _LISTED.findall(found[1]) if found else []


def required(text: str) -> tuple[Parameter, ...]:
    """Return the required parameters of a command from its help text."""
    usage = next(line for line in text.splitlines() if line.startswith("Usage: "))
    while (shorter := _OPTIONAL.sub("", usage)) != usage:
        usage = shorter
    return tuple(Parameter(match["option"] or "", match["label"]) for match in _PARAMETER.finditer(usage))
