"""The order of the commands, which makes the state of both systems the same, and the objects that they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.pulsar_admin.samples import EXCLUDED, arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.interop.pulsar_admin.usage import Command

CHANGES = ("create", "set", "update", "grant", "upload")
REMOVALS = ("delete", "remove", "clear", "revoke", "reset")
READINGS = ("get", "list")
"""First words of verbs, without which the verbs that belong together are equal."""

NOUNS_OF_TOPICS = ("topics", "topicPolicies", "schemas", "transactions")


@dataclass(frozen=True, slots=True)
class Family:
    """Commands of a noun for one object, such as getting, setting and removing a policy."""

    noun: str
    name: str
    """What the verbs have in common; empty for those of the noun itself, such as ``create``."""
    commands: tuple[Command, ...]

    @property
    def is_prepared(self) -> bool:
        """Return whether the object exists before the first command."""
        return not any(command.verb in _CREATING for command in self.commands)

    @property
    def partitions(self) -> int:
        """Return the number of partitions of its topic."""
        return 2 if "partition" in self.name or any("partition" in command.verb for command in self.commands) else 0

    @property
    def namespace(self) -> str:
        """Return its namespace."""
        return f"script/{self.name or 'none'}" if self.noun == "namespaces" else f"script/{self.noun}"

    @property
    def topic(self) -> str:
        """Return its topic."""
        return f"persistent://{self.namespace}/{self.name or 'none'}"

    @property
    def cluster(self) -> str:
        """Return its cluster; only commands for clusters have another one than the broker's."""
        if self.noun != "clusters":
            return "lone"
        return "near" if self.name else "far"

    def script(self) -> Iterator[Command]:
        """Yield the commands in order: readings before the changes, between them and the removals, and at the end."""
        readings = [each for each in self.commands if is_reading(each)]
        yield from readings
        for words in (CHANGES, REMOVALS):
            changes = [each for each in self.commands if _kind(each) in words]
            if changes:
                yield from sorted(changes, key=lambda each: words.index(_kind(each)))
                yield from readings


_CREATING = ("create", "create-partitioned-topic", "create-shadow-topic")


def families(commands: Iterable[Command]) -> list[Family]:
    """Return all commands but the excluded ones by noun and object."""
    found: dict[tuple[str, str], list[Command]] = {}
    for command in commands:
        if command.name not in EXCLUDED:
            found.setdefault((command.noun, _object(command)), []).append(command)
    return [Family(noun, name, tuple(members)) for (noun, name), members in found.items()]


def words(family: Family, command: Command, **values: str) -> list[str]:
    """Return the words of a command for the objects of its family; ``values`` are those of the broker."""
    of_family = {"namespace": family.namespace, "topic": family.topic, "cluster": family.cluster}
    return [word.format(**of_family, **values) for word in arguments(command)]


def is_reading(command: Command) -> bool:
    """Return whether a command may be repeated: no other command of its family depends on its effect."""
    return not _kind(command)


def _first(command: Command) -> str:
    return command.verb.split("-")[0]


def _kind(command: Command) -> str:
    """Return the first word of a verb that changes something, otherwise an empty text."""
    first = _first(command)
    return first if first in (*CHANGES, *REMOVALS) else ""


def _object(command: Command) -> str:
    first = _first(command)
    if first in (*CHANGES, *REMOVALS, *READINGS):
        return command.verb.removeprefix(first).removeprefix("-")
    return command.verb
