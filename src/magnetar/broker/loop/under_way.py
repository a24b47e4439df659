"""Work that is under way, and for whose end others wait."""

from __future__ import annotations

import asyncio


class UnderWay:
    """Counts what has begun and not ended yet."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self._count = 0
        self._over: asyncio.Event | None = None
        """Made for the first who waits: there are many of these, and few are waited for."""

    def __bool__(self) -> bool:
        """Whether anything is under way."""
        return self._count > 0

    def begin(self) -> None:
        """Count one in."""
        self._count += 1

    def end(self) -> None:
        """Count one out."""
        self._count -= 1
        if not self._count and self._over is not None:
            self._over.set()
            self._over = None

    async def over(self) -> None:
        """Return once nothing is under way."""
        while self._count:
            if self._over is None:
                self._over = asyncio.Event()
            await self._over.wait()
