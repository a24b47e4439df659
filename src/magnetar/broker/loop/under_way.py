"""Work that is under way, and for whose end others wait."""

from __future__ import annotations

import asyncio


class UnderWay:
    """Counts what has begun and not ended yet."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self._count = 0
        self._over = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether anything is under way."""
        return self._count > 0

    def begin(self) -> None:
        """Count one in."""
        self._count += 1
        self._over.clear()

    def end(self) -> None:
        """Count one out."""
        self._count -= 1
        if not self._count:
            self._over.set()

    async def over(self) -> None:
        """Return once nothing is under way."""
        while self._count:
            await self._over.wait()
