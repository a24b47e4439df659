"""A limit on log lines: repeated errors of one client neither fill the disk nor hide other events for long."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

LINES_MAX = 100
"""Maximum lines of one event in PERIOD_S; further lines are dropped."""

PERIOD_S = 60.0
"""Seconds after which a new count of an event's lines starts."""

EVENTS_MAX = 1000
"""Maximum number of events with a counter; the least recently seen one is evicted."""


@dataclass(slots=True)
class _Count:
    """The lines of one event in its current period."""

    began_at: float
    lines: int = 0
    dropped: int = 0


_UNLIMITED = frozenset({"debug", "info"})


class LogLimit:
    """A structlog processor that passes at most LINES_MAX warnings and errors of each event in PERIOD_S.

    The first line of the next period reports in ``dropped`` the number of lines dropped since the last passed one.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """``now`` is a monotonic clock, in seconds."""
        self._now = now
        self._counts: OrderedDict[object, _Count] = OrderedDict()
        self.dropped = 0
        """Number of lines dropped since the start."""

    def __call__(self, _logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Return the line, or raise DropEvent."""
        if method in _UNLIMITED:
            return event
        now, name = self._now(), event.get("event")
        count = self._counts.get(name)
        if count is None:
            count = self._counts[name] = _Count(now)
            if len(self._counts) > EVENTS_MAX:
                self._counts.popitem(last=False)
        self._counts.move_to_end(name)
        if now - count.began_at >= PERIOD_S:
            count.began_at, count.lines = now, 0
            if count.dropped:
                event["dropped"], count.dropped = count.dropped, 0
        count.lines += 1
        if count.lines > LINES_MAX:
            count.dropped += 1
            self.dropped += 1
            raise structlog.DropEvent
        return event
