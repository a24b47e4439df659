"""The settings of a broker from their three sources; the later wins: a file, the environment, command-line flags.

The file has the format and the keys of Pulsar's ``broker.conf``. Keys of Pulsar without a meaning here are ignored and
reported. Messages about keys that are not settings of Magnetar do not contain values, which may be secrets.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from magnetar.base.errors import ConfigurationError
from magnetar.base.java_properties import parse_properties
from magnetar.base.names import is_named_entity
from magnetar.broker.settings import listeners
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.pulsar_keys import Effect, pulsar_keys
from magnetar.broker.settings.similar import same_name, similar_name
from magnetar.broker.settings.tls import rules
from magnetar.broker.settings.tls.section import PORTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX: Final = "MAGNETAR_"

SETTINGS: Final = BrokerConfig.model_fields

TRANSLATED: Final = {
    "backlogQuotaDefaultLimitGB": ("backlogQuotaDefaultLimitBytes", 1 << 30),
    "brokerMaxConnections": ("maxConcurrentConnections", 1),
    "managedLedgerMaxUnackedRangesToPersistInZooKeeper": ("managedLedgerMaxUnackedRangesToPersistInMetadataStore", 1),
}
"""Settings that other keys of Pulsar stand for, and their factors. A key applies if its value is above 0."""

_ACKNOWLEDGED: Final = "acknowledgeIgnoredKeys"

_ALL: Final = "all"

_UNKNOWN: Final = "neither Magnetar nor Apache Pulsar knows the key"

_HINT: Final = "acknowledge dangerous keys with --acknowledge-ignored, or name them in acknowledgeIgnoredKeys"


@dataclass(frozen=True, slots=True)
class IgnoredKey:
    """A configured key without an effect."""

    name: str
    effect: Effect
    reason: str
    is_default: bool
    """Whether its value is Pulsar's default."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """A configuration, and the keys in its sources that have no effect."""

    config: BrokerConfig
    ignored: tuple[IgnoredKey, ...]


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], *, acknowledge_all: bool = False
) -> LoadedSettings:
    """Merge the three sources; raises ConfigurationError, which lists all problems with the keys, one in a line."""
    problems: list[str] = []
    sources = (
        {f"--{key}": (key, value) for key, value in flags.items()},
        _from_environment(environment, problems),
        {key: (key, value) for key, value in (_read(file) if file else {}).items()},
    )
    labels = {key: label for source in reversed(sources) for label, (key, _) in source.items()}
    given = ChainMap(*(dict(source.values()) for source in sources))
    acknowledged = frozenset(part.strip() for part in given.get(_ACKNOWLEDGED, "").split(","))
    sorting = _Sorting(acknowledged | {_ALL} if acknowledge_all else acknowledged, labels)
    chosen = ChainMap(*(sorting.settings(dict(source.values())) for source in sources))
    values = {key: value for key, value in chosen.items() if value or key in PORTS}
    problems += sorting.problems
    config = _validated(values, labels, problems)
    if config is None or problems:
        hint = f"\nhint: {_HINT}" if sorting.refused else ""
        raise ConfigurationError("\n  ".join(["invalid configuration", *problems]) + hint)
    return LoadedSettings(config, tuple(sorting.ignored.values()))


def log_format(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]) -> str:
    """Return the value of ``logFormat``, whether or not the settings are valid; empty if it is not given."""
    for source in (flags, dict(_from_environment(environment, []).values())):
        if "logFormat" in source:
            return source["logFormat"]
    try:
        return _read(file).get("logFormat", "") if file else ""
    except ConfigurationError:
        return ""


class _Sorting:
    """Divides configured keys into settings, ignored keys, and problems."""

    def __init__(self, acknowledged: frozenset[str], labels: Mapping[str, str]) -> None:
        self._acknowledged = acknowledged
        self._labels = labels
        self.ignored: dict[str, IgnoredKey] = {}
        self.problems: list[str] = []
        self.refused = False
        """Whether a dangerous key is not acknowledged."""

    def settings(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the settings among the ``values`` of a source; an empty one overrides those of later sources."""
        found: dict[str, str] = {}
        translated: dict[str, str] = {}
        for key, value in values.items():
            if key in SETTINGS:
                found[key] = value
            elif key in TRANSLATED:
                translated |= self._translated(key, value)
            else:
                self._note(key, value)
        return found | translated

    def _translated(self, key: str, value: str) -> dict[str, str]:
        """Return the setting that ``key`` stands for, if it applies."""
        name, factor = TRANSLATED[key]
        try:
            number = float(value or 0) * factor
        except ValueError:
            number = nan
        if not isfinite(number):
            self.problems.append(f"{self._labels[key]}={value!r}: not a number")
            return {}
        return {name: str(ceil(number))} if number > 0 else {}

    def _note(self, name: str, value: str) -> None:
        """Note a key that is no setting."""
        if name in self.ignored:
            return
        key = pulsar_keys().find(name)
        if key is None and name not in self._acknowledged:
            self.problems.append(f"{self._labels[name]}: unknown key{_suggestion(name, self._labels[name])}")
        elif key is None:
            self.ignored[name] = IgnoredKey(name, Effect.IGNORED, _UNKNOWN, is_default=False)
        else:
            is_default = key.is_default(value)
            self.ignored[name] = IgnoredKey(name, key.effect, key.reason, is_default)
            if key.effect is Effect.DANGEROUS and not is_default and value not in key.harmless:
                self._refuse(name, key.reason, key.fix)

    def _refuse(self, name: str, reason: str, fix: str) -> None:
        if not self._acknowledged & {name, _ALL}:
            self.refused = True
            self.problems.append(f"{self._labels[name]}: dangerous to ignore: {reason}. Fix: {fix}")


def _validated(values: Mapping[str, str], labels: Mapping[str, str], problems: list[str]) -> BrokerConfig | None:
    """Return the configuration; None after an invalid value, which is added to ``problems``."""
    found = [
        f"{labels[key]}={value!r}: expected true or false"
        for key, value in values.items()
        if SETTINGS[key].annotation is bool and value.lower() not in {"true", "false"}
    ]
    try:
        config = BrokerConfig.model_validate(values)
    except ValidationError as error:
        others = {str(problem["loc"][0]): problem for problem in error.errors()}
        found += [
            f"{labels.get(key, key)}={problem['input']!r}: {problem['msg'].removeprefix('Value error, ')}"
            for key, problem in others.items()
        ]
        config = None
    if config is not None and not is_named_entity(config.clusterName):
        found.append(f"{labels['clusterName']}={config.clusterName!r}: use letters, digits and -=:._ only")
    if config is not None:
        contradictions = (*listeners.problems(config), *rules.problems(config))
        found += [f"{labels.get(key, key)}: {problem}" for key, problem in contradictions]
    if config is not None and config.brokerMaxConnectionsPerRole and not config.authenticationEnabled:
        name = "brokerMaxConnectionsPerRole"
        found.append(f"{labels[name]}: it needs authenticationEnabled=true, because clients have no roles otherwise")
    problems += found
    return None if found else config


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, tuple[str, str]]:
    """Return keys and values by the names of their variables.

    Variables in upper case may belong to other programs, for example to Kubernetes, which names a service so. They are
    only refused if they differ from a setting by upper case and separators.
    """
    found: dict[str, tuple[str, str]] = {}
    for variable, value in environment.items():
        key = variable.removeprefix(ENVIRONMENT_PREFIX)
        if key == variable or not key:
            continue
        if key[0].islower():
            found[variable] = key, value
        elif (meant := same_name(key, SETTINGS)) is not None:
            problems.append(f"{variable}: unknown variable; did you mean {ENVIRONMENT_PREFIX}{meant}?")
    return found


def _suggestion(name: str, label: str) -> str:
    known: Iterable[str] = [*SETTINGS, *pulsar_keys().by_name]
    meant = similar_name(name, known)
    return f"; did you mean {label.removesuffix(name)}{meant}?" if meant else ""


def _read(file: Path) -> dict[str, str]:
    try:
        data = file.read_bytes()
    except OSError as error:
        message = f"cannot read the configuration file {file}: {error}"
        raise ConfigurationError(message) from error
    try:
        text = data.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # the encoding in which Pulsar reads the file
    return parse_properties(text, str(file))
