"""Work on many items in slices, with turns of the event loop for other work between them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Hashable, Iterable, Iterator

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
        self.is_over = False

    def count(self) -> bool:
        """Count one item as done; return whether the slice ends with it."""
        self._items += 1
        self.is_over = self._items >= SLICE_ITEMS_MAX or self._clock.monotonic() >= self._ends_at
        return self.is_over


class SliceOfTurn:
    """The slice of the present turn of the event loop, for all work that shares it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Begin a slice when it is asked for."""
        self._loop = loop
        self._clock = clock
        self._current: Slice | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more may begin in this turn."""
        return self._current is not None and self._current.is_over

    def get(self) -> Slice:
        """Return the slice of this turn."""
        if self._current is None:
            self._current = Slice(self._clock)
            self._loop.call_soon(self._end)
        return self._current

    def _end(self) -> None:
        self._current = None


def taken_from(items: deque[Item]) -> Iterator[Item]:
    """Yield items and drop each afterwards, so that their memory is freed in slices, too."""
    while items:
        yield items.popleft()


def at_once(steps: Generator[None, None, Result]) -> Result:
    """Run all steps in this turn of the event loop, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class SharedSlices:
    """Runs the work of tasks in slices. All tasks together have one slice in each turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Start without waiting tasks."""
        self._loop = loop
        self._slice = SliceOfTurn(loop, clock)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled: asyncio.Handle | None = None

    async def run(self, steps: Generator[None, None, Result]) -> Result:
        """Run all steps and return their result. A few steps run at once, unless other tasks are waiting.

        Cancelling the task closes the generator of the steps.
        """
        try:
            if self._waiting or self._slice.is_over:
                await self._turn()
            while True:
                current = self._slice.get()
                try:
                    next(steps)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                if current.count():
                    await self._turn()
        finally:
            steps.close()  # the traceback of an error would keep the generator suspended

    async def begin(self) -> None:
        """Return when work that takes no longer than a slice may begin. It counts as one step."""
        if self._waiting or self._slice.is_over:
            await self._turn()
        self._slice.get().count()

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
    """Work on many items by key, in one slice in each turn of the event loop.

    The slice of a turn begins with the first ``start`` in it. Short work is done when ``start`` returns, unless other
    work is under way or the slice is over. Keys run in the order of their starts. Work that raises is a bug of the
    caller. It ends the slice, and the other items follow in the next one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Start without work."""
        self._loop = loop
        self._slice = SliceOfTurn(loop, clock)
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
        """Run the rest of the slice of this turn."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        current = self._slice.get()
        try:
            while self._pending and not current.is_over:
                key, (work, items) = next(iter(self._pending.items()))
                try:
                    item = next(items)
                except StopIteration:
                    del self._pending[key]
                    continue
                work(item)
                current.count()
        finally:
            if self._pending:
                self._scheduled = self._loop.call_soon(self._run)
