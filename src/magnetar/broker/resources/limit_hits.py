"""Counters of the hits of each limit of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from magnetar.base.errors import MagnetarError
    from magnetar.base.logs.log_limit import LogLimit


class LimitHits:
    """One counter for each limit, since the start of the broker. Used on the event loop's thread only."""

    def __init__(self, log_limit: LogLimit | None = None) -> None:
        """Start at 0. ``log_limit`` counts by itself, because every thread logs; None if log lines are not limited."""
        self._hits: dict[Limit, int] = {limit: 0 for limit in Limit if limit is not Limit.LOG_LINES}
        self._log_limit = log_limit

    def hit(self, limit: Limit) -> None:
        """Count one hit of ``limit``."""
        self._hits[limit] += 1

    def note(self, error: MagnetarError) -> None:
        """Count the limit that ``error`` names, if any. Call it once, at the place that answers the error."""
        if error.limit is not None:
            self.hit(error.limit)

    def counts(self) -> dict[str, int]:
        """Return the number of hits of each limit, by its name; 0 for limits that were not hit."""
        counts = {limit.value: hits for limit, hits in self._hits.items()}
        if self._log_limit is not None:
            counts[Limit.LOG_LINES.value] = self._log_limit.dropped
        return counts
