"""The keys of Pulsar's ``broker.conf``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.settings.loading import SETTINGS, TRANSLATED
from magnetar.broker.settings.pulsar_keys import Effect, PulsarKey, pulsar_keys
from reference.markdown import code, table, value

if TYPE_CHECKING:
    from collections.abc import Iterable

_ABOUT = """\
`magnetar broker --config FILE` accepts the `broker.conf` of Apache Pulsar 4, and its `standalone.conf`. This page
lists the keys that have no effect here, and the settings whose default is not that of Pulsar. All other keys mean the
same in both ([configuration](configuration.md)).

A broker logs each key without an effect whose value is not Pulsar's default (`setting_ignored`). `magnetar broker
--check-config` lists all of them. Neither prints values, which may be secrets. A key with Pulsar's default never
prevents a start.
"""

_SECTIONS = {
    Effect.DANGEROUS: (
        "Dangerous to ignore",
        (
            "A broker with such a key starts only if the key has Pulsar's default, or is acknowledged: with "
            "`--acknowledge-ignored`, or by name in `acknowledgeIgnoredKeys`."
        ),
    ),
    Effect.IGNORED: (
        "Ignored",
        "Magnetar does not have the function, or has no choice there. The column says what holds instead.",
    ),
    Effect.NO_MEANING: ("No meaning", "The part of Pulsar that reads these keys does not exist in Magnetar."),
}


def page() -> str:
    """Return the tables."""
    return "\n".join([_ABOUT, _differences(), _translated(), *(_section(effect) for effect in _SECTIONS)])


def _differences() -> str:
    keys = pulsar_keys()
    rows = [
        (code(name), code(value(SETTINGS[name].default)), code(keys.by_name[name].default), reason)
        for name, reason in keys.differences.items()
    ]
    return f"## Other defaults\n\n{table(('key', 'Magnetar', 'Pulsar', 'reason'), rows)}"


def _translated() -> str:
    rows = [(code(key), code(name)) for key, (name, _) in TRANSLATED.items()]
    text = "Of these keys, the ones with a value above 0 replace a setting."
    return f"## Keys with another name\n\n{text}\n\n{table(('key', 'setting'), rows)}"


def _section(effect: Effect) -> str:
    heading, text = _SECTIONS[effect]
    found = [key for key in pulsar_keys().by_name.values() if key.effect is effect and key.name not in SETTINGS]
    prefixes = [key for key in pulsar_keys().prefixes if key.effect is effect]
    is_dangerous = effect is Effect.DANGEROUS
    heads = ("key", "Pulsar's default", "instead", "fix") if is_dangerous else ("key", "Pulsar's default", "instead")
    return f"## {heading}\n\n{text}\n\n{table(heads, _rows(found, prefixes, is_dangerous=is_dangerous))}"


def _rows(keys: Iterable[PulsarKey], prefixes: Iterable[PulsarKey], *, is_dangerous: bool) -> Iterable[tuple[str, ...]]:
    for key in keys:
        row = (code(key.name), code(key.default), key.reason)
        yield (*row, key.fix) if is_dangerous else row
    for key in prefixes:
        yield (f"`{key.name}…`", "", key.reason)
