"""Giving memory back to the system after a flood.

The allocator of the C library keeps what is freed below something that is still used. It gives free pages back when it
is asked to, which takes some 0.1 ms for each MiB.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from magnetar.broker.resources.memory import MemoryBudget

TRIM_BYTES = 32 * 1024 * 1024
"""Bytes of a flood that have to be gone before memory is given back."""

INTERVAL_S = 1.0
"""Seconds between two looks."""


class MemoryTrim:
    """Looks whether a flood is over, and has the allocator give its memory back, in a thread of its own."""

    def __init__(self, memory: MemoryBudget, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing happens before ``start``."""
        self._memory = memory
        self._loop = loop
        self._peak = 0
        """The most that clients made the broker hold since memory was last given back."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._loop.call_later(INTERVAL_S, self._look)

    def stop(self) -> None:
        """Look no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def is_due(self) -> bool:
        """Whether so much was given up since the last time that memory should be given back; note what is held."""
        held = self._memory.held
        self._peak = max(self._peak, held)
        if self._peak - held < TRIM_BYTES:
            return False
        self._peak = held
        return True

    def _look(self) -> None:
        if self.is_due():
            self._loop.run_in_executor(None, trim)
        self.start()


def trim() -> None:
    """Give free pages back to the system; nothing happens with a C library that cannot."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
