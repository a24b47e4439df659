"""Producers and consumers of a topic that are still to be removed: their connection is gone, or they are sent away."""

from __future__ import annotations

import asyncio


class Departures:
    """Counts them. Many are removed in slices.

    Until then they are in the way of others, as if they were alive. So whoever wants to publish or to consume waits.
    """

    def __init__(self) -> None:
        """None."""
        self._count = 0
        self._over = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self._count > 0

    def begin(self) -> None:
        """Count one in."""
        self._count += 1
        self._over.clear()

    def end(self) -> None:
        """Count one out: it was removed."""
        self._count -= 1
        if not self._count:
            self._over.set()

    async def over(self) -> None:
        """Return once there are none."""
        while self._count:
            await self._over.wait()
