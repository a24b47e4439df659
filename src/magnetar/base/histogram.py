"""Histograms and quantiles of durations."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
"""Upper bounds of the buckets, in seconds, inclusive."""


RECENT_MAX = 1000
"""Maximum number of durations of which quantiles are known."""


class Histogram:
    """Durations in seconds, counted in buckets. One thread observes, any thread may read."""

    def __init__(self) -> None:
        """Begin empty."""
        self._counts = [0] * len(BOUNDS_S)
        self.sum_s = 0.0
        """Sum of all observed durations, in seconds."""

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[float, int]]:
        """Return each of BOUNDS_S, in seconds, with the number of durations that were at most as long."""
        return list(zip(BOUNDS_S, accumulate(self._counts), strict=True))


class RecentDurations:
    """The newest durations, with their quantiles. Used on one thread."""

    def __init__(self) -> None:
        """Begin empty."""
        self.count = 0
        self.sum_s = 0.0
        """Number and sum of all observed durations."""
        self._newest: deque[float] = deque(maxlen=RECENT_MAX)

    def observe(self, seconds: float) -> None:
        """Add a duration."""
        self.count += 1
        self.sum_s += seconds
        self._newest.append(seconds)

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Return the duration that each share of the newest RECENT_MAX durations does not exceed; empty without any."""
        ordered = sorted(self._newest)
        last = len(ordered) - 1
        return [ordered[min(int(share * len(ordered)), last)] for share in shares] if ordered else []
