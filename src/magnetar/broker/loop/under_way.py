"""A counter of work in progress, whose end can be awaited."""

from __future__ import annotations

import asyncio


class UnderWay:
    """Counts work that has begun and not ended."""

    def __init__(self) -> None:
        """Start at zero."""
        self._count = 0
        self._over: asyncio.Event | None = None
        """Created for the first waiter, because there are many counters and few waiters."""

    def __bool__(self) -> bool:
        """Whether work is in progress."""
        return self._count > 0

    def begin(self) -> None:
        """Count work that begins."""
        self._count += 1

    def end(self) -> None:
        """Count work that ends."""
        self._count -= 1
        if not self._count and self._over is not None:
            self._over.set()
            self._over = None

    async def over(self) -> None:
        """Return when no work is in progress."""
        while self._count:
            if self._over is None:
                self._over = asyncio.Event()
            await self._over.wait()
