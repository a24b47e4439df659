"""How late the event loop is: what every client waits because of what the broker does for others."""

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
"""Seconds between two looks. A stall is measured up to so much too short; each look costs an idle broker some 80 us."""

LOGGED_FROM_S = 0.1
"""Seconds from which a stall is logged."""


class LoopStalls:
    """Observes how much later than planned a timer ran; a timer is due every INTERVAL_S."""

    def __init__(self) -> None:
        """Nobody has looked yet."""
        self.late = Histogram()

    def watch(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, beat: Callable[[], str] = lambda: ""
    ) -> Callable[[], None]:
        """Look from now on; what is returned ends that. ``beat`` tells at each look where the loop was while late."""
        timer: asyncio.TimerHandle

        def look(due: float) -> None:
            self._note(max(0.0, clock.monotonic() - due), beat())
            plan()

        def plan() -> None:
            nonlocal timer
            timer = loop.call_later(INTERVAL_S, look, clock.monotonic() + INTERVAL_S)

        plan()

        def stop() -> None:
            timer.cancel()  # the newest one

        return stop

    def _note(self, late_s: float, where: str) -> None:
        self.late.observe(late_s)
        if late_s >= LOGGED_FROM_S:
            log.warning("event_loop_stalled", seconds=round(late_s, 3), where=where or "not known")
