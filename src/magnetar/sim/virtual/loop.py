"""An event loop whose time stands still until somebody moves it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_WALL_CLOCK_S = 1_700_000_000.0
"""What the clock says in the beginning."""


class HandLoop(asyncio.SelectorEventLoop):
    """Runs what is due, and returns when nothing more is."""

    opened: ClassVar[list[HandLoop]] = []

    @classmethod
    def close_all(cls) -> None:
        """End every loop and what still waits in it."""
        for loop in cls.opened:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.spin()
            loop.close()
        cls.opened.clear()

    def __init__(self) -> None:
        """Begin at zero."""
        super().__init__()
        self.opened.append(self)
        self.elapsed_s = 0.0
        self.problems: list[dict[str, Any]] = []
        """What callbacks raised."""
        self.scheduled_calls = 0
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    def time(self) -> float:
        """Seconds that were let pass."""
        return self.elapsed_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        """See AbstractEventLoop; counted, so that ``spin`` sees when nothing follows any more."""
        self.scheduled_calls += 1
        return super().call_soon(callback, *args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]
    """There is one thread."""

    def spin(self) -> None:
        """Run everything that is due now, and what that makes due."""
        before = -1
        while before != self.scheduled_calls:
            before = self.scheduled_calls
            super().call_soon(self.stop)
            self.run_forever()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.elapsed_s += seconds
        self.spin()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin something that may have to wait."""
        task = self.create_task(work)
        self.spin()
        return task


class Timed(Protocol):
    """What knows how much time has passed."""

    def time(self) -> float:
        """Seconds."""
        ...


class HandClock:
    """The clock of a hand loop, or of whatever else time passes in."""

    def __init__(self, loop: Timed) -> None:
        """Tell the time of ``loop``."""
        self._loop = loop
        self.jumped_s = 0.0
        """How far somebody has moved the wall clock."""
        self.highest = 0.0
        """The latest time that anybody was told."""
        self._drift = 0.0
        self._drifts_since = 0.0

    def now(self) -> float:
        """See Clock."""
        now = _WALL_CLOCK_S + self._loop.time() + self.jumped_s + self._drifted_s()
        self.highest = max(self.highest, now)
        return now

    def drift(self, rate: float) -> None:
        """Let the wall clock gain ``rate`` seconds a second from now on; negative: lose."""
        self.jumped_s += self._drifted_s()
        self._drift, self._drifts_since = rate, self._loop.time()

    def _drifted_s(self) -> float:
        return self._drift * (self._loop.time() - self._drifts_since)

    def monotonic(self) -> float:
        """See Clock."""
        return self._loop.time()
