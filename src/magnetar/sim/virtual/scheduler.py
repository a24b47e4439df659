"""Virtual time: one queue of callbacks, and an event loop for each process, which ends with the process."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
import warnings
from asyncio.events import _set_running_loop
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from magnetar.ledger.medium.blocking import run_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    _Due = tuple[float, int, "MachineLoop", asyncio.Handle]


class Scheduler:
    """Runs the due callbacks of all machines in the order of time, and of scheduling at equal times."""

    def __init__(self) -> None:
        """Begin at time 0."""
        self.now = 0.0
        self.problems: list[str] = []
        """Unhandled exceptions of callbacks and tasks; must stay empty."""
        self.loops: list[MachineLoop] = []
        self.events = 0
        """Number of callbacks run."""
        self._due: list[_Due] = []
        self._order = itertools.count()
        self._until = 0.0
        """The end of the current ``run_until``."""

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now

    def add(self, when: float, loop: MachineLoop, handle: asyncio.Handle) -> None:
        """Run ``handle`` on ``loop`` at ``when``, or as soon as possible."""
        heapq.heappush(self._due, (max(when, self.now), next(self._order), loop, handle))

    def run_until(self, when: float) -> None:
        """Run all callbacks that are due at or before ``when``, or before an earlier end that ``end_at`` sets."""
        self._until = when
        due = self._due
        while due and due[0][0] <= self._until:
            self.now, order, loop, handle = heapq.heappop(due)
            if loop.stopped_until > self.now:
                heapq.heappush(due, (loop.stopped_until, order, loop, handle))
            elif loop.alive and not handle.cancelled():
                self.events += 1
                _set_running_loop(loop)
                try:
                    handle._run()  # noqa: SLF001 - what an event loop does
                finally:
                    _set_running_loop(None)
        self.now = self._until

    def end_at(self, when: float) -> None:
        """End the current ``run_until`` at ``when`` or now, whichever is later, unless it ends earlier anyway."""
        self._until = min(self._until, max(when, self.now))

    def close(self) -> None:
        """Drop all callbacks, and cancel all tasks."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that never started are no error here
            for loop in self.loops:
                loop.delete_subscription()
        self._due.clear()


class Networked(Protocol):
    """The network interface of machines."""

    def connect(
        self, loop: MachineLoop, protocol: asyncio.Protocol, host: str, port: int
    ) -> asyncio.Future[asyncio.Transport]:
        """Connect ``protocol`` to the listener at ``host:port``; the future raises OSError on failure."""
        ...

    def listen(self, loop: MachineLoop, factory: Callable[[], asyncio.Protocol], port: int) -> asyncio.Server:
        """Accept connections for the machine of ``loop``."""
        ...


class MachineLoop(asyncio.BaseEventLoop):
    """The event loop of one process, which runs production code until the process dies.

    After ``die`` the loop runs nothing, like a killed process: no ``finally``, no callback, no timer.
    """

    def __init__(self, scheduler: Scheduler, name: str, network: Networked) -> None:
        """Create the loop of the process ``name``."""
        super().__init__()
        self.name = name
        self.alive = True
        self.stopped_until = 0.0
        """The time until which the process is suspended (SIGSTOP): connections stay open, and callbacks wait."""
        self._scheduler = scheduler
        self._network = network
        self._is_starting = False
        self._tasks: list[asyncio.Task[Any]] = []
        """All tasks ever created, so that tasks of a dead process are not garbage-collected, and closed, before the
        end.
        """
        scheduler.loops.append(self)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._scheduler.now

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """See AbstractEventLoop."""
        task = super().create_task(coro, **options)
        self._tasks.append(task)
        return task

    def call_soon(  # type: ignore[override]  # typeshed matches arguments to the callback's
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See AbstractEventLoop."""
        handle = asyncio.Handle(callback, args, self, context)
        self._scheduler.add(0.0, self, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]
    """the loop has one thread"""

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See AbstractEventLoop."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._scheduler.add(when, self, handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See AbstractEventLoop."""
        return self.call_at(self._scheduler.now + delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run ``func`` at once, and return its result in the next turn."""
        del executor
        future: asyncio.Future[Any] = self.create_future()
        answer = _settle if self._is_starting else partial(self.call_soon, _settle)
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            answer(future, future.set_exception, error)
        else:
            answer(future, future.set_result, result)
        return future

    def complete(self, starting: Coroutine[Any, Any, None]) -> None:
        """Run a starting process, which waits for executors only, to its end without advancing the time."""
        self._is_starting = True
        try:
            run_blocking(lambda: starting)
        finally:
            self._is_starting = False

    async def create_connection(self, protocol_factory: Callable[[], Any], host: Any, port: Any, **_: Any) -> Any:  # type: ignore[override]
        """Connect over the virtual network, without TLS."""
        protocol = protocol_factory()
        return await self._network.connect(self, protocol, host, port), protocol

    async def create_server(self, protocol_factory: Callable[[], Any], host: Any, port: Any, **_: Any) -> Any:  # type: ignore[override]
        """Listen on the virtual network."""
        del host
        return self._network.listen(self, protocol_factory, port)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an unhandled exception, except of dead processes, and connection errors without a waiter."""
        error, message = context.get("exception"), str(context.get("message"))
        is_given_up = isinstance(error, asyncio.CancelledError | OSError) and "never retrieved" in message
        if self.alive and not is_given_up:
            self._scheduler.problems.append(f"{self.name}: {message}: {error!r}")

    def wait(self, seconds: float) -> None:
        """Suspend the process after the current callback, like a blocking disk write."""
        self.stopped_until = max(self.stopped_until, self._scheduler.now) + seconds

    def die(self) -> None:
        """Stop running callbacks for good."""
        self.alive = False

    def delete_subscription(self) -> None:
        """Cancel the waiting tasks without effects on other machines."""
        self.alive = False
        _set_running_loop(self)
        try:
            for task in self._tasks:
                coroutine = task.get_coro()
                if not task.done() and inspect.iscoroutine(coroutine):
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it was killed
                    with suppress(Exception):
                        coroutine.close()
        finally:
            _set_running_loop(None)
        self._tasks.clear()
        self.close()


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not future.done():
        settle(outcome)
