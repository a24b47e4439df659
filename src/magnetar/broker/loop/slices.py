"""Work on many items in slices, with turns of the event loop for other work between them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterable, Iterator

    from magnetar.base.world import Clock

SLICE_S = 0.002
"""Seconds in which a slice may begin items. The last item may exceed it. Clients wait this long at most."""

SLICE_ITEMS_MAX = 100
"""Maximum number of items in a slice."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key", bound="Hashable")


class Slice:
    """The budget of one slice."""

    def __init__(self, clock: Clock) -> None:
        """Begin now."""
        self._clock = clock
        self._items = 0
        self._ends_at = clock.monotonic() + SLICE_S

    def is_over(self) -> bool:
        """Count one item as done; return whether the slice ends with it."""
        self._items += 1
        return self._items >= SLICE_ITEMS_MAX or self._clock.monotonic() >= self._ends_at


def at_once(steps: Generator[None, None, Result]) -> Result:
    """Run all steps in this turn of the event loop, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


async def in_slices(clock: Clock, items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield all items in slices. Other work runs between two slices, so any state may have changed."""
    current = Slice(clock)
    for item in items:
        yield item
        if current.is_over():
            await asyncio.sleep(0)
            current = Slice(clock)


class SharedSlices:
    """Runs the work of tasks in slices. All tasks together have one slice in each turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Start without waiting tasks."""
        self._loop = loop
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._current: Slice | None = None
        self._is_over = False
        """Whether the current slice is over."""
        self._scheduled: asyncio.Handle | None = None

    async def run(self, steps: Generator[None, None, Result]) -> Result:
        """Run all steps and return their result. A few steps run at once, unless other tasks are waiting.

        Cancelling the task closes the generator of the steps.
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
            steps.close()  # the traceback of an error would keep the generator suspended

    def _current_slice(self) -> Slice:
        """The slice of this turn of the event loop. All tasks that run in the turn share it."""
        if self._current is None:
            self._current = Slice(self._clock)
            self._loop.call_soon(self._end_slice)
        return self._current

    def _end_slice(self) -> None:
        self._current, self._is_over = None, False

    async def _turn(self) -> None:
        """Return when it is the turn of this task, after all tasks that are waiting already."""
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
    """Work on many items by key: the first slice runs at once, the others in later turns of the event loop.

    Short work is done when ``start`` returns, unless other work is under way. Keys run in the order of their starts.
    Work that raises is a bug of the caller. It ends the slice, and the other items follow in the next one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Start without work."""
        self._loop = loop
        self._clock = clock
        self._pending: dict[Key, tuple[Callable[[Item], None], Iterator[Item]]] = {}
        self._scheduled: asyncio.Handle | None = None

    def start(self, key: Key, items: Iterable[Item], work: Callable[[Item], None]) -> None:
        """Run ``work`` on each of ``items``. The rest of an earlier start with the same ``key`` is dropped.

        The iterator is advanced item by item, when an item is due.
        """
        self._pending.pop(key, None)
        self._pending[key] = work, iter(items)
        if len(self._pending) == 1:
            self._run()

    def cancel(self, key: Key) -> None:
        """Drop the rest of the work with ``key``."""
        self._pending.pop(key, None)

    def stop(self) -> None:
        """Drop all work."""
        self._pending.clear()

    def _run(self) -> None:
        """Run one slice."""
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
