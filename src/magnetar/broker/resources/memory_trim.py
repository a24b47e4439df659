"""Returns free memory to the operating system after a peak.

The allocator of the C library keeps freed memory below memory in use. It returns free pages on request
(``malloc_trim``), in about 0.1 ms for each MiB.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from magnetar.broker.resources.memory import MemoryBudget

TRIM_BYTES = 32 * 1024 * 1024
"""Bytes that must have been released since the peak before memory is returned."""

INTERVAL_S = 1.0
"""Seconds between two checks."""


class MemoryTrim:
    """Detects the end of a peak and calls ``trim`` in a thread."""

    def __init__(self, memory: MemoryBudget, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing before ``start``."""
        self._memory = memory
        self._loop = loop
        self._peak = 0
        """Maximum bytes held for clients since memory was last returned."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the checks."""
        self._timer = self._loop.call_later(INTERVAL_S, self._check)

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def is_due(self) -> bool:
        """Return whether enough memory was released since the last trim to trim again; updates the peak."""
        held = self._memory.held
        self._peak = max(self._peak, held)
        if self._peak - held < TRIM_BYTES:
            return False
        self._peak = held
        return True

    def _check(self) -> None:
        if self.is_due():
            self._loop.run_in_executor(None, trim)
        self.start()


def trim() -> None:
    """Return free pages to the operating system; no effect if the C library does not support it."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
