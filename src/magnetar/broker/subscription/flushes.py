"""Writing of a subscription's acknowledgements, and the callbacks when they are durable."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.broker.environment import settle

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.environment import Environment
    from magnetar.broker.subscription.ack_state import AckState
    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.cursor.cursor import Cursor


class FlushedSubscription(Protocol):
    """The subscription."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def cursor(self) -> Cursor:
        """The cursor, with the acknowledgement state."""
        ...

    @property
    def progress(self) -> SharedProgress | None:
        """The state in origin positions; None while the subscription is not replicated."""
        ...

    @property
    def ack_state(self) -> AckState:
        """The acknowledgements' use of their limits."""
        ...


class Flushes:
    """Writes the changes of one subscription, as one record per flush."""

    def __init__(self, subscription: FlushedSubscription, reached: Callable[[Position], None]) -> None:
        """Create it; ``reached`` is called with each durable mark-delete position."""
        self._subscription = subscription
        self._environment = subscription.environment
        self._reached = reached
        self._waiting: list[Callable[[StorageError | None], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_due_this_turn = False
        self._flushed_at = 0.0
        self.advanced_at = 0.0
        """Time of the newest flush with a later mark-delete position; 0.0 before the first one since the load."""
        self._mark_delete = subscription.cursor.state.mark_delete_position

    @property
    def is_unwritten(self) -> bool:
        """Whether there are changes since the last flush."""
        progress = self._subscription.progress
        return self._subscription.cursor.changed or (progress is not None and progress.is_unwritten)

    def soon(self) -> None:
        """Write the changes, at most once every ``acknowledgmentFlushIntervalMs``."""
        if self._timer is None and not self._is_due_this_turn:
            interval_s = self._environment.config.acknowledgmentFlushIntervalMs / 1000
            left_s = self._flushed_at + interval_s - self._environment.clock.monotonic()
            self._timer = self._environment.loop.call_later(max(0.0, left_s), self.now)

    def then(self, done: Callable[[StorageError | None], None]) -> None:
        """Write the changes at the end of this turn, and call ``done`` when they are durable."""
        self._waiting.append(done)
        if not self._is_due_this_turn:
            self._is_due_this_turn = True
            self._environment.loop.call_soon(self.now)

    async def durable(self) -> None:
        """Return when all changes until now are durable; raises StorageError."""
        future: asyncio.Future[None] = self._environment.loop.create_future()
        self.then(partial(settle, future))
        await future

    def now(self) -> None:
        """Write the changes since the last flush."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._is_due_this_turn = None, False
        self._flushed_at = self._environment.clock.monotonic()
        waiting, self._waiting = self._waiting, []
        subscription = self._subscription
        speak = subscription.progress.prepare() if subscription.progress is not None else None
        mark_delete = subscription.cursor.state.mark_delete_position
        if mark_delete != self._mark_delete:
            if mark_delete > self._mark_delete:
                self.advanced_at = self._environment.clock.now()
            self._mark_delete = mark_delete

        def durable(error: StorageError | None) -> None:
            if speak is not None:
                speak(error)
            if error is None:
                self._reached(mark_delete)
            for done in waiting:
                done(error)

        subscription.cursor.flush(durable)
        subscription.ack_state.watch()
