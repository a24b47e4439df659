"""Resets of a subscription that are in progress, and the time in which its consumer may return after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.loop.under_way import UnderWay

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

RETURN_MAX_S = 120.0
"""Seconds after the last reset in which a consumer may return to a non-durable subscription."""


class Resets(UnderWay):
    """Counts the resets that are not durable yet.

    No consumer is admitted meanwhile: clients drop received messages when their seek is answered, so messages that were
    sent before the answer would be lost to them (protocol: Seeks).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, overdue: Callable[[], None] | None) -> None:
        """Start without resets; ``overdue`` is called RETURN_MAX_S after the last reset unless it is None."""
        super().__init__()
        self._loop = loop
        self._overdue = overdue
        self._timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """Count a reset that ends."""
        super().end()
        if self._overdue is not None:
            if self._timer is not None:
                self._timer.cancel()  # otherwise it would end the time of a consumer that returns from this reset
            self._timer = self._loop.call_later(RETURN_MAX_S, self._overdue)
