"""Protocols of subscriptions for the sessions of their consumers, whether the messages of a topic are stored or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from magnetar.broker.dispatch.consumer import ConsumedSubscription, ConsumedTopic
from magnetar.broker.log.interfaces import AnyTopic

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.subscription.consumers import SubscriptionConsumers
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class LastMessage(NamedTuple):
    """The newest message of a topic, as a consumer sees it."""

    position: Position
    batch_size: int | None
    mark_delete: Position
    """The mark-delete position of the subscription."""


class ClientTopic(AnyTopic, ConsumedTopic, Protocol):
    """The topic of a subscription."""


class ClientSubscription(ConsumedSubscription, Protocol):
    """A subscription, which is not a link."""

    @property
    def name(self) -> str:
        """The name of the subscription."""
        ...

    @property
    def topic(self) -> ClientTopic:
        """The topic."""
        ...

    @property
    def requests(self) -> ClientRequests:
        """Requests of the clients of consumers."""
        ...

    @property
    def consumers(self) -> SubscriptionConsumers:
        """The connected consumers."""
        ...

    async def waiting(self, event: Awaitable[None]) -> None:
        """Await ``event`` for a consumer that waits for admission; raises the error of the event."""
        ...

    def add_consumer(self, consumer: Consumer) -> None:
        """Admit a consumer that ``check_can_add`` accepted."""
        ...


class ClientRequests(Protocol):
    """Requests about a subscription that the client of one of its consumers sends."""

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries."""
        ...

    def awaited(self, command: pb.CommandSubscribe) -> Awaitable[None] | None:
        """Return the event that a new consumer must await; None if there is none."""
        ...

    def redeliver(self, consumer: Consumer, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Send unacknowledged entries of the consumer again."""
        ...

    def kept(self) -> Awaitable[None] | None:
        """Return the event before which the subscription cannot be deleted; None if it can be now."""
        ...

    def unsubscribe(self, done: Callable[[StorageError | None], None]) -> None:
        """Delete the subscription; ``done`` is called when that is durable."""
        ...

    async def seek(self, command: pb.CommandSeek, turn: asyncio.Lock) -> None:
        """Move the subscription, by id or by time, after the earlier seeks of the client, which hold ``turn``."""
        ...

    async def last_message(self) -> LastMessage:
        """Return the newest message; raises RequestError if the topic knows none."""
        ...

    def when_closed(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` when all acknowledgements of a consumer that has left are durable."""
        ...


class Entrance(Protocol):
    """The admission of consumers to the subscriptions of a topic."""

    @property
    def is_idle(self) -> bool:
        """Whether the topic has no clients that need a schema, and no entries."""
        ...

    def awaited(self, command: pb.CommandSubscribe, *, is_tool: bool) -> Awaitable[None] | None:
        """Return the event that a new consumer must await; None if there is none.

        ``is_tool``: the client is Magnetar's.
        """
        ...

    def find(self, command: pb.CommandSubscribe) -> ClientSubscription:
        """Return the subscription; create it if that is allowed. Raises RequestError if it is refused."""
        ...
