"""Requests of clients about the subscription of a consumer: redelivery, seeking, deletion and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.position import EARLIEST, LATEST
from magnetar.broker.dispatch.multiple_consumers import MultipleConsumersDispatcher
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.subscription.interfaces import LastMessage
from magnetar.wire.entries import ack_set
from magnetar.wire.entries.entry import messages_in
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.subscription.consumers import SubscriptionConsumers
    from magnetar.broker.subscription.flushes import Flushes
    from magnetar.broker.subscription.resets import Resets
    from magnetar.cursor.cursor import Cursor
    from magnetar.wire.proto import pulsar_api_pb2 as pb

    _Place = tuple[Position, list[tuple[Position, int]]]
    """A mark-delete position, and the remaining messages of batches behind it that are read in part."""

log = structlog.get_logger(__name__)


class AllowedTopic(LoggedTopic, Protocol):
    """The topic of the subscription."""

    @property
    def replication_forbidden(self) -> str:
        """Reason why no subscription may be replicated; empty if they may."""
        ...


class RequestedSubscription(Protocol):
    """The subscription."""

    consumers: SubscriptionConsumers
    cursor: Cursor
    flushes: Flushes
    name: str
    resets: Resets

    @property
    def topic(self) -> AllowedTopic:
        """The topic."""
        ...

    @property
    def is_durable(self) -> bool:
        """Whether the subscription outlives its consumers."""
        ...

    @property
    def is_replicated(self) -> bool:
        """Whether the subscription is to be replicated."""
        ...

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries."""
        ...

    async def reset(self, mark_delete: Position, partial: Sequence[tuple[Position, int]] = ()) -> None:
        """Move to a place in the log; durable on return."""
        ...


class SubscriptionRequests:
    """See ``ClientRequests``. Used on the event loop's thread."""

    __slots__ = ("_delete", "_replicate", "_subscription")

    def __init__(
        self,
        subscription: RequestedSubscription,
        delete: Callable[[Callable[[StorageError | None], None]], None],
        replicate: Callable[[], None],
    ) -> None:
        """Handle the requests about one subscription; ``delete`` and ``replicate`` change it in its topic."""
        self._subscription = subscription
        self._delete = delete
        self._replicate = replicate

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries."""
        return self._subscription.backlog

    def awaited(self, command: pb.CommandSubscribe) -> Awaitable[None] | None:
        """Return the event that a new consumer must await; None if there is none."""
        subscription = self._subscription
        if subscription.resets:
            return subscription.resets.over()
        if self._begins_to_replicate(command) or subscription.cursor.is_being_recorded:
            # SUCCESS confirms that the subscription exists, and that it is replicated: both must survive a crash.
            return subscription.flushes.durable()
        return None

    def _begins_to_replicate(self, command: pb.CommandSubscribe) -> bool:
        """Start replicating the subscription, if that is requested, allowed and not done yet."""
        subscription = self._subscription
        topic, is_wanted = subscription.topic, command.replicate_subscription_state and subscription.is_durable
        if not is_wanted or subscription.is_replicated:
            return False
        if topic.replication_forbidden:
            reason = topic.replication_forbidden
            log.warning("not_replicated", topic=str(topic.name), subscription=subscription.name, reason=reason)
            return False
        self._replicate()
        return True

    def redeliver(self, consumer: Consumer, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Send unacknowledged entries of the consumer again."""
        dispatcher = self._subscription.consumers.dispatcher
        if dispatcher is not None:
            is_tracked = isinstance(dispatcher, MultipleConsumersDispatcher)  # others redeliver all entries
            positions = [position_of(message_id) for message_id in command.message_ids] if is_tracked else []
            epoch = command.consumer_epoch if command.HasField("consumer_epoch") else None
            dispatcher.redeliver(consumer, positions, epoch)

    def kept(self) -> Awaitable[None] | None:
        """Return the event before which the subscription cannot be deleted; None if it can be now."""
        fence = self._subscription.topic.log.migration_fence
        return fence.end() if fence.is_set and self._subscription.is_durable else None

    def unsubscribe(self, done: Callable[[StorageError | None], None]) -> None:
        """Delete the subscription; ``done`` is called when that is durable."""
        self._delete(done)

    def when_closed(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` when all acknowledgements of a consumer that has left are durable."""
        if self._subscription.is_durable:
            self._subscription.flushes.then(done)
        else:
            done(None)

    # -- places in the log --------------------------------------------------------------------------------------

    async def seek(self, command: pb.CommandSeek, turn: asyncio.Lock) -> None:
        """Move the subscription, by id or by time, after the earlier seeks of the client, which hold ``turn``."""
        subscription = self._subscription
        fence = subscription.topic.log.migration_fence
        if fence.is_set and subscription.is_durable:
            await fence.end()
        async with turn:
            await subscription.topic.environment.slices.begin()
            if command.HasField("message_id"):
                mark_delete, partly_read = await self._place_of_id(command.message_id)
            else:
                mark_delete = await subscription.topic.log.position_before_time(command.message_publish_time)
                partly_read = []
        await subscription.reset(mark_delete, partly_read)

    async def _place_of_id(self, target: pb.MessageIdData) -> _Place:
        topic = self._subscription.topic
        position, former = position_of(target), topic.log.former
        is_here = True
        if former is not None and former.has(position.ledger_id):
            start = former.start_at(position) or LATEST
            is_here, position = start == former.local_of(position), start
        if position == EARLIEST:
            mark_delete = topic.log.before_first()
        elif position > topic.ledger.last_confirmed_entry:
            mark_delete = topic.ledger.last_confirmed_entry
        else:
            mark_delete = max(topic.log.before_first(), topic.ledger.previous_position(position))
        partly_read: list[tuple[Position, int]] = []
        if target.ack_set and is_here and topic.ledger.contains(position):
            members = messages_in(await topic.log.read_entry(position))
            words = target.ack_set[: ack_set.words_for(members)]
            remaining = ack_set.words_to_int(words) & ack_set.all_remaining(members)
            if remaining:
                partly_read.append((position, remaining))
        return mark_delete, partly_read

    async def last_message(self) -> LastMessage:
        """Return the newest durable message, and the mark-delete position of the subscription."""
        topic, mark_delete = self._subscription.topic, self._subscription.cursor.state.mark_delete_position
        position, batch_size = await topic.log.last_message()
        if topic.ledger.entries:
            # A cursor that is as old as the topic has no ledger; its reader must see that the first entry follows.
            mark_delete = max(mark_delete, topic.log.before_first())
        return LastMessage(position, batch_size, mark_delete)
