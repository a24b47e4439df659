"""The termination of a topic: its log takes no more entries, durably."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import Position
from magnetar.broker.environment import settle
from magnetar.broker.loop.under_way import UnderWay

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.ledger.managed_ledger import ManagedLedger

_PROPERTY = "pulsar.topic.terminated"
"""Managed-ledger property: the position of the last entry of a terminated topic."""


class Termination:
    """Whether a topic is terminated, and since which position. Used on the event loop's thread."""

    def __init__(self, environment: Environment, name: TopicName, ledger: ManagedLedger) -> None:
        """Recover the state from the properties of the log."""
        stored = ledger.properties.get(_PROPERTY)
        self.position: Position | None = None if stored is None else Position.parse(stored)
        """The last entry of a terminated topic; None while the topic takes entries."""
        self._environment = environment
        self._name = name
        self._ledger = ledger
        self._under_way = UnderWay()

    @property
    def is_over(self) -> bool:
        """Whether the topic takes no more entries."""
        return self.position is not None

    def check(self) -> None:
        """Raise RequestError with TopicTerminatedError for a producer of a terminated topic."""
        if self.position is not None:
            raise RequestError(ServerError.TopicTerminatedError, f"Topic {self._name} is already terminated")

    def awaited(self) -> Awaitable[None] | None:
        """Return the end of a termination that is in progress, which producers must await; None if there is none."""
        return self._under_way.over() if self._under_way else None

    async def begin(self, dismiss: Callable[[], None]) -> Position:
        """Terminate the topic, and return the position of its last entry; durable on return.

        ``dismiss`` disconnects all producers after the receipts of their entries; no producer is admitted meanwhile.
        Raises StorageError if the termination cannot be stored.
        """
        self._under_way.begin()
        try:
            if self.position is None:
                dismiss()
                await self._environment.durable()  # the entries that the producers have published before
                await self._store()
        finally:
            self._under_way.end()
        assert self.position is not None
        return self.position

    async def _store(self) -> None:
        last = self._ledger.last_confirmed_entry
        stored: Future[None] = self._environment.loop.create_future()
        self._ledger.set_property(_PROPERTY, str(last), on_durable=partial(settle, stored))
        await stored
        self.position = last
