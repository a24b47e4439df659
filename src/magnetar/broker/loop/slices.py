"""Work on many things that lets everybody else have a turn of the event loop in between."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterable, Iterator

    from magnetar.base.world import Clock

SLICE_S = 0.002
"""Seconds that a slice of work takes, and the last item on top; what comes from clients waits so long at most."""

SLICE_ITEMS_MAX = 100
"""Items of a slice, however quick they are."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key", bound="Hashable")


class Slice:
    """Tells when it is time to let others have a turn."""

    def __init__(self, clock: Clock) -> None:
        """Begin now."""
        self._clock = clock
        self._items = 0
        self._ends_at = clock.monotonic() + SLICE_S

    def is_over(self) -> bool:
        """Count one item as done; whether the slice ends behind it."""
        self._items += 1
        return self._items >= SLICE_ITEMS_MAX or self._clock.monotonic() >= self._ends_at


def at_once(steps: Generator[None, None, Result]) -> Result:
    """Run all steps in this turn of the event loop, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


async def in_slices(clock: Clock, items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield all items; between two slices of them everybody else has a turn, so anything may have changed."""
    current = Slice(clock)
    for item in items:
        yield item
        if current.is_over():
            await asyncio.sleep(0)
            current = Slice(clock)


class SharedSlices:
    """Lets tasks do their work in slices. However many tasks there are, one slice runs in a turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """No task waits."""
        self._loop = loop
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._current: Slice | None = None
        self._is_over = False
        """Whether the current slice is."""
        self._scheduled: asyncio.Handle | None = None

    async def run(self, steps: Generator[None, None, Result]) -> Result:
        """Run all steps and return what they return. Few are done at once, unless other tasks wait.

        If the task is cancelled, the steps are ended where they are.
        """
        try:
            if self._waiting or self._is_over:
                await self._turn()
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                if self._current_slice().is_over():
                    self._is_over = True
                    await self._turn()
        finally:
            steps.close()  # the error would keep them waiting in the middle

    def _current_slice(self) -> Slice:
        """The slice of this turn of the event loop, which all tasks share that run in it."""
        if self._current is None:
            self._current = Slice(self._clock)
            self._loop.call_soon(self._end_slice)
        return self._current

    def _end_slice(self) -> None:
        self._current, self._is_over = None, False

    async def _turn(self) -> None:
        """Return when it is this task's turn, after all that wait already."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._next)
        await future

    def _next(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # else the task was cancelled
                future.set_result(None)
                break
        self._scheduled = self._loop.call_soon(self._next) if self._waiting else None


class SlicedWork(Generic[Key, Item]):
    """Does work on many items, by key: a first slice at once, the others in later turns of the event loop.

    So few items are done on return, unless other work is under way: keys have their turn in the order in which they
    were started. An item whose work raises is the caller's bug: it ends the slice, not the rest.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Nothing is to be done."""
        self._loop = loop
        self._clock = clock
        self._pending: dict[Key, tuple[Callable[[Item], None], Iterator[Item]]] = {}
        self._scheduled: asyncio.Handle | None = None

    def start(self, key: Key, items: Iterable[Item], work: Callable[[Item], None]) -> None:
        """Do ``work`` on ``items``, and no longer on those that are left of an earlier start with ``key``.

        An item is asked for when its turn has come.
        """
        self._pending.pop(key, None)
        self._pending[key] = work, iter(items)
        if len(self._pending) == 1:
            self._run()

    def cancel(self, key: Key) -> None:
        """Do no more of the work that was started with ``key``."""
        self._pending.pop(key, None)

    def stop(self) -> None:
        """Do no more of it."""
        self._pending.clear()

    def _run(self) -> None:
        """Do one slice."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        current = Slice(self._clock)
        try:
            while self._pending:
                key, (work, items) = next(iter(self._pending.items()))
                try:
                    item = next(items)
                except StopIteration:
                    del self._pending[key]
                    continue
                work(item)
                if current.is_over():
                    break
        finally:
            if self._pending:
                self._scheduled = self._loop.call_soon(self._run)
