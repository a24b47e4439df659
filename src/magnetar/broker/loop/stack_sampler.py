"""Where the thread of the event loop is while the loop is late: the name of what stalls it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from magnetar.base.world import Clock

FRAMES_MAX = 4
"""Functions of Magnetar that are named, the innermost first."""

_OURS = "magnetar."


class StackSampler:
    """A thread that looks at the stack of another one when that has not called ``beat`` for a while.

    Made on the thread that it is to look at. It wakes each ``late_s / 2`` seconds, which takes some 100 us.
    """

    def __init__(self, clock: Clock, late_s: float) -> None:
        """Look once the last call of ``beat`` is ``late_s`` seconds ago, from ``start`` on."""
        self._clock = clock
        self._late_s = late_s
        self._thread_id = threading.get_ident()
        self._beat_at = clock.monotonic()
        self._seen = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="magnetar-stalls", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def beat(self) -> str:
        """Return where the thread was seen since the last call; empty if that was not long ago."""
        seen, self._seen, self._beat_at = self._seen, "", self._clock.monotonic()
        return seen

    def _run(self) -> None:
        while not self._stopped.wait(self._late_s / 2):
            beat_at = self._beat_at
            if self._seen or self._clock.monotonic() - beat_at < self._late_s:
                continue
            seen = _described(sys._current_frames().get(self._thread_id))  # noqa: SLF001 - there is no other way
            if self._beat_at == beat_at:
                self._seen = seen


def _described(frame: FrameType | None) -> str:
    """Return the innermost function, and those of Magnetar that called it, as ``module.function:line``."""
    named: list[str] = []
    ours = 0
    while frame is not None and ours < FRAMES_MAX:
        module = frame.f_globals.get("__name__", "?")
        is_ours = module.startswith(_OURS)
        if is_ours or not named:
            named.append(f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        ours += is_ours
        frame = frame.f_back
    return " < ".join(named)
