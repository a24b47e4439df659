"""Limits of the audit log: a client that is refused again and again neither fills the disk nor hides other events.

Each source has a bucket of EVENTS_AT_ONCE events, refilled with EVENTS_PER_SECOND, and all sources together have a
larger one. Further events are counted, and a report of the counts stands for them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from magnetar.broker.resources.token_bucket import TokenBucket

EVENTS_AT_ONCE: Final = 50
"""Events of a source that are written without a delay between them."""

EVENTS_PER_SECOND: Final = 1.0
"""Rate of the events of a source beyond EVENTS_AT_ONCE."""

ALL_AT_ONCE: Final = 1000
"""As EVENTS_AT_ONCE, for all sources together."""

ALL_PER_SECOND: Final = 20.0
"""As EVENTS_PER_SECOND, for all sources together: some 500 MB a day."""

SOURCES_MAX: Final = 10_000
"""Maximum number of sources with recent events; beyond it, the one whose last event is oldest is forgotten."""

REPORTED_MAX: Final = 10
"""Sources that a report names, those with the most events first; the events of the others are added up."""


class AuditLimits:
    """The recent events of all sources. Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        """Begin without events."""
        self._all = _bucket(ALL_AT_ONCE, ALL_PER_SECOND, now)
        self._sources: OrderedDict[str, TokenBucket] = OrderedDict()
        self._suppressed: dict[str, int] = {}
        """Events since the last report, by source."""
        self.suppressed = 0
        """Number of events that were not written, since the start."""

    def admits(self, source: str, now: float) -> bool:
        """Return whether an event of a source may be written, and count it otherwise."""
        own = self._sources.get(source)
        if own is None:
            own = self._sources[source] = _bucket(EVENTS_AT_ONCE, EVENTS_PER_SECOND, now)
            if len(self._sources) > SOURCES_MAX:
                self._sources.popitem(last=False)
        self._sources.move_to_end(source)
        if own.tokens(now) < 1 or self._all.tokens(now) < 1:
            self._suppress(source)
            return False
        own.take(1, now)
        self._all.take(1, now)
        return True

    def report(self) -> list[tuple[str, int]]:
        """Return the numbers of suppressed events since the last report; those of the source "" are of all others."""
        found = sorted(self._suppressed.items(), key=lambda each: (-each[1], each[0]))
        self._suppressed = {}
        others = sum(count for source, count in found if not source)
        named = [each for each in found if each[0]]
        others += sum(count for _, count in named[REPORTED_MAX:])
        return [*named[:REPORTED_MAX], *([("", others)] if others else [])]

    def _suppress(self, source: str) -> None:
        self.suppressed += 1
        name = source if source in self._suppressed or len(self._suppressed) < SOURCES_MAX else ""
        self._suppressed[name] = self._suppressed.get(name, 0) + 1


def _bucket(at_once: int, per_second: float, now: float) -> TokenBucket:
    return TokenBucket(at_once, at_once / per_second, now=now)
