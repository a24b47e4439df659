"""How late the event loop is: what every client waits because of what the broker does for others."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock

log = structlog.get_logger(__name__)

INTERVAL_S = 0.02
"""Seconds between two looks. A stall is measured up to so much too short."""

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
"""Upper bounds of the histogram's buckets, in seconds, inclusive."""

LOGGED_FROM_S = 0.1
"""Seconds from which a stall is logged."""


class LoopStalls:
    """A histogram of how much later than planned a timer ran, in seconds; a timer is due every INTERVAL_S."""

    def __init__(self) -> None:
        """Nobody has looked yet."""
        self._counts = [0] * len(BOUNDS_S)
        self.sum_s = 0.0
        """Seconds of all stalls together."""

    def buckets(self) -> list[tuple[float, int]]:
        """Return each of BOUNDS_S, in seconds, with the number of looks that were late by at most so much."""
        return list(zip(BOUNDS_S, accumulate(self._counts), strict=True))

    def watch(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> Callable[[], None]:
        """Look from now on; what is returned ends that."""
        timer: asyncio.TimerHandle

        def look(due: float) -> None:
            self._note(max(0.0, clock.monotonic() - due))
            plan()

        def plan() -> None:
            nonlocal timer
            timer = loop.call_later(INTERVAL_S, look, clock.monotonic() + INTERVAL_S)

        plan()

        def stop() -> None:
            timer.cancel()  # the newest one

        return stop

    def _note(self, late_s: float) -> None:
        self._counts[bisect_left(BOUNDS_S, late_s)] += 1
        self.sum_s += late_s
        if late_s >= LOGGED_FROM_S:
            log.warning("event_loop_stalled", seconds=round(late_s, 3))
