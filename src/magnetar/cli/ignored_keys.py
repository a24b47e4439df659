"""Reports of configured keys of Pulsar that have no effect. They never contain values, which may be secrets."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.broker.settings.loading import IgnoredKey

log = structlog.get_logger(__name__)

_HEADINGS = {
    "dangerous": "dangerous to ignore if changed",
    "ignored": "ignored",
    "no meaning": "no meaning in Magnetar",
}
"""Headings of the effects, the most important one first."""


def listed(ignored: Sequence[IgnoredKey]) -> Iterator[str]:
    """Yield the lines of a list of all keys by their effects; keys that differ from Pulsar's defaults come first."""
    for effect, heading in _HEADINGS.items():
        keys = [key for key in ignored if key.effect == effect]
        if keys:
            changed = sum(not key.is_default for key in keys)
            yield f"\n{heading}: {len(keys)} keys, {changed} of them not with Pulsar's default (*)"
        for is_default, part in groupby(sorted(keys, key=attrgetter("is_default", "name")), attrgetter("is_default")):
            mark = " " if is_default else "*"
            yield from (f"{mark} {key.name}: {key.reason}" for key in part)


def log_ignored(ignored: Sequence[IgnoredKey]) -> None:
    """Log the keys whose values are not Pulsar's defaults, one in a line, and how many keys there are."""
    for key in ignored:
        if not key.is_default:
            say = log.info if key.effect == "no meaning" else log.warning
            say("setting_ignored", key=key.name, effect=key.effect.value, reason=key.reason)
    if ignored:
        counts = Counter(key.effect.value.replace(" ", "_") for key in ignored)
        log.info("settings_ignored", **counts, remedy="magnetar broker --check-config lists these keys")
