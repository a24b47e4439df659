"""Delay of the event loop: the time that every client waits because of the broker's work for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.histogram import Histogram

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock

log = structlog.get_logger(__name__)

INTERVAL_S = 0.05
"""Seconds between two timers. A stall is measured up to this much too short. One timer costs an idle broker 80 us."""

LOGGED_FROM_S = 0.1
"""Seconds from which a stall is logged."""


class LoopStalls:
    """A histogram of the delays of a timer that is due every INTERVAL_S."""

    def __init__(self) -> None:
        """Start with an empty histogram."""
        self.late = Histogram()

    def watch(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, beat: Callable[[], str] = lambda: ""
    ) -> Callable[[], None]:
        """Start the timer and return a function that stops it. ``beat`` returns the code that made the loop late."""
        timer: asyncio.TimerHandle

        def measure(due: float) -> None:
            self._note(max(0.0, clock.monotonic() - due), beat())
            plan()

        def plan() -> None:
            nonlocal timer
            timer = loop.call_later(INTERVAL_S, measure, clock.monotonic() + INTERVAL_S)

        plan()

        def stop() -> None:
            timer.cancel()  # the newest one

        return stop

    def _note(self, late_s: float, where: str) -> None:
        self.late.observe(late_s)
        if late_s >= LOGGED_FROM_S:
            log.warning("event_loop_stalled", seconds=round(late_s, 3), where=where or "not known")
