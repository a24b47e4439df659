"""A subscription of a non-persistent topic: it exists while it has consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.rates import Rates
from magnetar.broker.dispatch.consumer import ConsumedTopic, Consumer
from magnetar.broker.log.interfaces import AnyTopic
from magnetar.broker.loop.slices import taken_from
from magnetar.broker.non_persistent.dispatchers import DeliveryDispatcher, dispatcher_for
from magnetar.broker.subscription.admission import check_room_for_consumer
from magnetar.broker.subscription.consumers import SubscriptionConsumers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.broker.dispatch.consumer import ConsumerOptions, Delivery
    from magnetar.broker.subscription.interfaces import LastMessage
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class SubscribedTopic(AnyTopic, ConsumedTopic, Protocol):
    """The topic."""

    @property
    def subscriptions(self) -> dict[str, NonPersistentSubscription]:
        """The subscriptions, by name."""
        ...

    def forget(self, subscription: NonPersistentSubscription) -> None:
        """Remove a subscription without consumers."""
        ...


class NonPersistentSubscription:
    """A named subscription; also the handler of its clients' requests. Used on the event loop's thread."""

    backlog = 0
    """Nothing is kept."""

    def __init__(self, topic: SubscribedTopic, name: str, properties: Mapping[str, str]) -> None:
        """Create it without consumers; it belongs to the topic from its first consumer on."""
        self.topic = topic
        self.name = name
        self.properties = properties
        self.consumers = SubscriptionConsumers()
        self.dropped = 0
        """Messages that no consumer could take."""
        self.rates = Rates(5)
        """Rates of the counters of its consumers, and of ``dropped``."""
        self.last_acked_at = 0.0
        self._dispatcher: DeliveryDispatcher | None = None

    @property
    def requests(self) -> NonPersistentSubscription:
        """Handler of the requests of its consumers' clients."""
        return self

    # -- delivery -----------------------------------------------------------------------------------------------

    def deliver(self, run: Sequence[Delivery], now: float) -> None:
        """Send each entry to a consumer that can take it now, and drop the others."""
        if self._dispatcher is not None:
            self.dropped += self._dispatcher.deliver(run, now)

    def dispatch(self) -> None:
        """Do nothing: no entry waits for permits."""

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """Accept an ACK, which has no effect."""
        del ack
        self._note_ack(consumer)
        done(None)

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Accept ACKs, which have no effect."""
        del ledger_id, entry_ids
        self._note_ack(consumer)

    def _note_ack(self, consumer: Consumer) -> None:
        consumer.last_acked_at = self.last_acked_at = self.topic.environment.clock.now()

    # -- consumers ----------------------------------------------------------------------------------------------

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if a consumer with this request is refused."""
        check_room_for_consumer(self.topic.policies, self.topic.subscriptions.values(), self)
        self.consumers.check_can_add(options)

    async def waiting(self, event: Awaitable[None]) -> None:
        """Await ``event`` for a consumer that waits for admission; raises the error of the event."""
        await event

    def add_consumer(self, consumer: Consumer) -> None:
        """Admit a consumer that ``check_can_add`` accepted."""
        self.topic.subscriptions[self.name] = self
        self.consumers.add(consumer, self._make_dispatcher)

    def _make_dispatcher(self, consumer: Consumer) -> DeliveryDispatcher:
        self._dispatcher = dispatcher_for(consumer, self.topic.environment, self.topic.name)
        return self._dispatcher

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer; the subscription ends with its last one."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            if not self.consumers:
                self._end()

    def detach_all(self) -> Iterator[Consumer]:
        """Remove all consumers, and return them for ``Consumer.close``."""
        leaving = self.consumers.detach_all()
        self._end()
        return taken_from(leaving)

    def kept(self) -> None:
        """Return None: nothing keeps the subscription."""

    def _end(self) -> None:
        self._dispatcher = None
        self.topic.forget(self)

    # -- requests of clients ------------------------------------------------------------------------------------

    def awaited(self, command: pb.CommandSubscribe) -> Awaitable[None] | None:
        """Return None: nothing has to be durable before a consumer is admitted."""
        del command
        return None

    def redeliver(self, consumer: Consumer, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Accept the request, which has no effect."""

    def unsubscribe(self, done: Callable[[StorageError | None], None]) -> None:
        """End the subscription; the remaining consumers may subscribe again."""
        self.topic.environment.sliced.start(object(), self.detach_all(), Consumer.close)
        done(None)

    async def seek(self, command: pb.CommandSeek, turn: asyncio.Lock) -> None:
        """Accept the request, which has no effect, as in Pulsar."""

    async def last_message(self) -> LastMessage:
        """Raise RequestError, with Pulsar's code: no message is kept."""
        message = f"Non-persistent topics keep no messages, so {self.topic.name} has no last message"
        raise RequestError(ServerError.UnknownError, message)

    def when_closed(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` at once."""
        done(None)
