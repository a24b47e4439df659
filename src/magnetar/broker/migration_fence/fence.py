"""The migration fence of one topic: its durable state, its lease, and the clients that wait for its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.broker.environment import settle
from magnetar.broker.migration_fence.transitions import Fence, reason_against, reason_against_removal

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

PROPERTY: Final = "magnetar.migration-fence"
"""Managed-ledger property: the stored fence. It is deleted with the topic."""

CLIENT_PATIENCE_S: Final = 5.0
"""Seconds for which requests of clients wait for the end of a fence. Stock clients wait longer for an answer, and wait
longer after each refusal before they try again."""


class FenceRefusedError(MagnetarError):
    """A fence may not be set or removed; nothing has changed."""


def change_refused(name: TopicName, fenced_by: str) -> RequestError:
    """Return the refusal of a change of messages or acknowledgements of a fenced topic, with NotAllowedError."""
    message = f"{name} is fenced by {fenced_by}: its messages and acknowledgements must not be changed meanwhile"
    return RequestError(ServerError.NotAllowedError, message)


class MigrationFence:
    """Whether a migration keeps the clients of a topic away. Used on the event loop's thread.

    A fence takes effect before it is durable, and ends when its removal is durable. So a restart of the broker never
    admits clients while somebody knows of a fence, except by the end of its lease.
    """

    def __init__(self, environment: Environment, name: TopicName, ledger: ManagedLedger) -> None:
        """Recover the fence from the properties of the log."""
        stored = ledger.properties.get(PROPERTY)
        self.present: Fence | None = None if stored is None else Fence.decode(stored)
        """The fence; None without one, also while its removal is not durable yet."""
        self.is_set = self.present is not None
        """Whether clients are kept away."""
        self._environment = environment
        self._name = name
        self._ledger = ledger
        self.when_lifted: Callable[[], None] = lambda: None
        """Called when the fence has ended."""
        self._decided = asyncio.Event()
        """Set when waiting requests of clients are to be decided."""
        self._lease: asyncio.TimerHandle | None = None
        self._lease_ends = 0.0
        """Monotonic time of the end of the lease."""
        if self.present is not None:
            self._begin_lease(self.present.remaining_s(environment.clock.now()))

    # -- for clients ----------------------------------------------------------------------------------------------

    def check_clients(self) -> None:
        """Raise RequestError with ServiceNotReady, after which clients try again, while the topic is fenced."""
        if self.is_set:
            raise RequestError(ServerError.ServiceNotReady, f"{self._name} is fenced by {self._described()}")

    def check_change(self) -> None:
        """Raise RequestError with NotAllowedError for a change of messages or acknowledgements of a fenced topic."""
        if self.is_set:
            raise change_refused(self._name, self._described())

    def end(self) -> Awaitable[None]:
        """Return the end of the fence, for a request of a client.

        It raises RequestError with ServiceNotReady if the fence is still set after CLIENT_PATIENCE_S, or when another
        cluster serves the clients. So clients go on at once, without growing delays between their attempts.
        """
        return self._ended(self._decided)

    async def _ended(self, decided: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLIENT_PATIENCE_S):
                await decided.wait()
        self.check_clients()

    def send_away(self) -> None:
        """Refuse the waiting requests: the clients find their cluster with a new lookup."""
        decided, self._decided = self._decided, asyncio.Event()
        decided.set()

    def close(self) -> None:
        """End the lease without effect, because the topic is closed; waiting clients look it up again."""
        self._end_lease()
        self.send_away()

    # -- for the migration ----------------------------------------------------------------------------------------

    def set(self, wanted: Fence, done: Callable[[StorageError | None], None]) -> None:
        """Set a fence from now on; ``done`` is called when it is durable. Raises FenceRefusedError, StorageError."""
        self._end_overdue()
        refusal = reason_against(self.present, wanted)
        if refusal:
            raise FenceRefusedError(refusal)
        self.present = wanted.begun(self._environment.clock.now())
        self.is_set = True
        self._begin_lease(None if self.present.ends_at is None else self.present.lease_s)
        self._ledger.set_property(PROPERTY, self.present.encode(), on_durable=done)

    async def remove(self, migration: str, epoch: int, *, is_decision: bool) -> None:
        """Remove the fence, if there is one; clients go on when that is durable, on return.

        Raises FenceRefusedError, StorageError.
        """
        refusal = reason_against_removal(self.present, migration, epoch, is_decision=is_decision)
        if refusal:
            raise FenceRefusedError(refusal)
        removed: Future[None] = self._environment.loop.create_future()
        self._remove(partial(settle, removed))
        await removed

    @property
    def lease_left_s(self) -> float | None:
        """Seconds until the end of the lease; None for a final fence, and without one."""
        if self._lease is None:
            return None
        return max(0.0, self._lease_ends - self._environment.clock.monotonic())

    # -- the lease ------------------------------------------------------------------------------------------------

    def _begin_lease(self, lease_s: float | None) -> None:
        self._end_lease()
        if lease_s is not None:
            self._lease_ends = self._environment.clock.monotonic() + lease_s
            self._lease = self._environment.loop.call_later(lease_s, self._lease_over)

    def _end_lease(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None

    def _end_overdue(self) -> None:
        """Apply the end of a lease whose timer is late."""
        if self._lease is not None and self._lease_ends <= self._environment.clock.monotonic():
            self._lease_over()

    def _lease_over(self) -> None:
        log.warning("migration_fence_lease_over", topic=str(self._name), fence=str(self.present))
        try:
            self._remove(lambda _: None)
        except MagnetarError as error:  # the topic is loaded again, and ends the fence then
            log.warning("migration_fence_not_removed", topic=str(self._name), error=str(error))

    def _remove(self, done: Callable[[StorageError | None], None]) -> None:
        self._end_lease()
        self.present = None
        self._ledger.remove_property(PROPERTY)

        def removed(error: StorageError | None) -> None:
            if error is None and self.present is None and self.is_set:
                self.is_set = False
                self.send_away()
                self.when_lifted()
            done(error)

        self._environment.metadata.barrier(removed)

    def _described(self) -> str:
        return "a migration, and is being released" if self.present is None else str(self.present)
