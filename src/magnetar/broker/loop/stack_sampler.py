"""Stack samples of the event loop's thread while the loop is late. They name the code that stalls it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from magnetar.base.world import Clock

FRAMES_MAX = 4
"""Number of Magnetar's functions in a sample, the innermost first."""

_OURS = "magnetar."


class StackSampler:
    """A thread that samples the stack of another thread when that thread has not called ``beat`` in time.

    It samples the thread that creates it. It wakes every ``late_s / 2`` seconds, which takes some 100 us.
    """

    def __init__(self, clock: Clock, late_s: float) -> None:
        """Take a sample when the last call of ``beat`` is ``late_s`` seconds ago; ``start`` has to follow."""
        self._clock = clock
        self._late_s = late_s
        self._thread_id = threading.get_ident()
        self._beat_at = clock.monotonic()
        self._seen = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="magnetar-stalls", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def beat(self) -> str:
        """Return the sample since the last call; empty if the last call was in time."""
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
    """Return the innermost function and its callers in Magnetar, as ``module.function:line``."""
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
