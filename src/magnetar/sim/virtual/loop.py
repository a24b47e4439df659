"""An event loop with a manually advanced clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_WALL_CLOCK_S = 1_700_000_000.0
"""The initial wall clock time."""


class HandLoop(asyncio.SelectorEventLoop):
    """Runs due callbacks, and returns when the loop is idle."""

    opened: ClassVar[list[HandLoop]] = []

    @classmethod
    def close_all(cls) -> None:
        """Close every loop and cancel its tasks."""
        for loop in cls.opened:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.spin()
            loop.close()
        cls.opened.clear()

    def __init__(self) -> None:
        """Begin at time 0."""
        super().__init__()
        self.opened.append(self)
        self.elapsed_s = 0.0
        self.problems: list[dict[str, Any]] = []
        """Exceptions raised by callbacks."""
        self.scheduled_calls = 0
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    def time(self) -> float:
        """Return the time in seconds."""
        return self.elapsed_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        """See AbstractEventLoop; counts calls, so that ``spin`` detects an idle loop."""
        self.scheduled_calls += 1
        return super().call_soon(callback, *args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]
    """the loop has one thread"""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do it now, and answer in a later turn."""
        del executor
        future: asyncio.Future[Any] = self.create_future()

        def settle(answer: Callable[[Any], None], outcome: Any) -> None:
            if not future.done():
                answer(outcome)

        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self.call_soon(settle, future.set_exception, error)
        else:
            self.call_soon(settle, future.set_result, result)
        return future

    def spin(self) -> None:
        """Run all due callbacks, and those that they schedule."""
        before = -1
        while before != self.scheduled_calls:
            before = self.scheduled_calls
            super().call_soon(self.stop)
            self.run_forever()

    def advance(self, seconds: float) -> None:
        """Advance the clock and run due callbacks."""
        self.elapsed_s += seconds
        self.spin()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine."""
        task = self.create_task(work)
        self.spin()
        return task


class Timed(Protocol):
    """A source of time."""

    def time(self) -> float:
        """Return the time in seconds."""
        ...


class HandClock:
    """The clock of a manually driven loop, or of another source of time."""

    def __init__(self, loop: Timed) -> None:
        """Follow the time of ``loop``."""
        self._loop = loop
        self.jumped_s = 0.0
        """The offset of the wall clock in seconds."""
        self.boots = 0
        """Number of losses of power. The monotonic clock does not start again with them, unlike that of a machine."""
        self.highest = 0.0
        """The latest wall clock time returned so far."""
        self._drift = 0.0
        self._drifts_since = 0.0

    def now(self) -> float:
        """See Clock."""
        now = _WALL_CLOCK_S + self._loop.time() + self.jumped_s + self._drifted_s()
        self.highest = max(self.highest, now)
        return now

    def drift(self, rate: float) -> None:
        """Let the wall clock gain ``rate`` seconds per second from now on; negative: lose."""
        self.jumped_s += self._drifted_s()
        self._drift, self._drifts_since = rate, self._loop.time()

    def _drifted_s(self) -> float:
        return self._drift * (self._loop.time() - self._drifts_since)

    def monotonic(self) -> float:
        """See Clock."""
        return self._loop.time()

    def boot(self) -> str:
        """See Clock."""
        return str(self.boots)
