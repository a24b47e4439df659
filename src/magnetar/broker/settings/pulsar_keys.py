"""The keys of Apache Pulsar's ``broker.conf``, and the effect of each in Magnetar."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from magnetar.base.java_properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TABLE: Final = "pulsar_keys.toml"


class Effect(StrEnum):
    """The effect of a key of Pulsar in Magnetar."""

    SETTING = "setting"
    NO_MEANING = "no meaning"
    IGNORED = "ignored"
    DANGEROUS = "dangerous"


@dataclass(frozen=True, slots=True)
class PulsarKey:
    """A key of Pulsar, or the prefix of keys."""

    name: str
    default: str
    """Pulsar's default; empty if it has none, or if it depends on the machine."""
    effect: Effect
    reason: str = ""
    fix: str = ""
    """An alternative to a dangerous key."""
    harmless: frozenset[str] = frozenset()
    """Further values that are not dangerous."""

    def is_default(self, value: str) -> bool:
        """Return whether ``value`` means the same as Pulsar's default. An empty value means the default."""
        return not value or _comparable(value) == _comparable(self.default)


@dataclass(frozen=True, slots=True)
class PulsarKeys:
    """All keys of Pulsar."""

    by_name: Mapping[str, PulsarKey]
    prefixes: tuple[PulsarKey, ...]
    differences: Mapping[str, str]
    """Reasons why the default of a setting is not that of Pulsar."""

    def find(self, name: str) -> PulsarKey | None:
        """Return the key with this name, or the prefix that it starts with."""
        found = self.by_name.get(name)
        return found or next((prefix for prefix in self.prefixes if name.startswith(prefix.name)), None)


@cache
def pulsar_keys() -> PulsarKeys:
    """Read the table."""
    table = tomllib.loads(files(__package__).joinpath(_TABLE).read_text(encoding="utf-8"))
    families = table["family"]
    keys = {key.name: key for family in families for key in _keys(family)}
    prefixes = (_key(family, prefix, "") for family in families for prefix in family.get("prefixes", ()))
    return PulsarKeys(keys, tuple(prefixes), table["differences"])


def _keys(family: Mapping[str, Any]) -> Iterable[PulsarKey]:
    return (_key(family, name, default) for name, default in parse_properties(family["keys"], _TABLE).items())


def _key(family: Mapping[str, Any], name: str, default: str) -> PulsarKey:
    return PulsarKey(
        name=name,
        default=default,
        effect=Effect(family["effect"]),
        reason=family.get("reason", ""),
        fix=family.get("fix", ""),
        harmless=frozenset(family.get("harmless", ())),
    )


def _comparable(value: str) -> object:
    """Return a form in which equal values are equal: numbers by value, lists in any order, words in any case."""
    try:
        return float(value)
    except ValueError:
        return sorted(part.strip() for part in value.lower().split(","))
