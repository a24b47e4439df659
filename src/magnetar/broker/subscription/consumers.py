"""The connected consumers of a subscription: their admission, and their dispatcher."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.dispatch.consumer import Consumer, Counters
from magnetar.broker.dispatch.key_shared import KeySharedDispatcher
from magnetar.broker.dispatch.multiple_consumers import MultipleConsumersDispatcher
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.broker.dispatch.single_active import SingleActiveDispatcher
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.base import Dispatcher
    from magnetar.broker.dispatch.consumer import ConsumerOptions
    from magnetar.broker.dispatch.interfaces import DispatchedEntries
    from magnetar.cursor.ranges import Range

_TYPE_NAMES = {0: "Exclusive", 1: "Shared", 2: "Failover", 3: "Key_Shared"}


class ConsumersSummary(NamedTuple):
    """Figures of all consumers of a subscription since the topic was loaded."""

    messages_sent: int
    bytes_sent: int
    unacked_messages: int
    """Messages that connected consumers hold."""
    last_sent_at: float
    last_flow_at: float
    """Times of the last MESSAGE and FLOW; 0.0 before the first."""


class SubscriptionConsumers(Collection[Consumer]):
    """The connected consumers, in the order of connection. Used on the event loop's thread."""

    def __init__(self) -> None:
        """Create the collection, without consumers."""
        self.type: int | None = None
        """Type of the newest dispatcher, a ``CommandSubscribe.SubType``; None before the first consumer."""
        self.dispatcher: Dispatcher | None = None
        self._left = (0, 0, 0, 0)
        """Sums of the counters of earlier consumers."""
        self._last_sent_at = 0.0
        self._last_flow_at = 0.0

    def __len__(self) -> int:
        """Return the number of connected consumers."""
        return 0 if self.dispatcher is None else len(self.dispatcher.consumers)

    def __iter__(self) -> Iterator[Consumer]:
        """The consumers."""
        return iter(() if self.dispatcher is None else self.dispatcher.consumers)

    def __contains__(self, consumer: object) -> bool:
        """Return whether the consumer is connected."""
        return self.dispatcher is not None and consumer in self.dispatcher.consumers

    @property
    def type_name(self) -> str:
        """Pulsar's name of the type; "None" without connected consumers."""
        return _TYPE_NAMES[self.type] if self.type is not None and self else "None"

    @property
    def is_tracked(self) -> bool:
        """Whether the dispatcher tracks which consumer holds which entry: the type is Shared or Key_Shared."""
        return isinstance(self.dispatcher, MultipleConsumersDispatcher)

    def counters(self) -> Counters:
        """Return the sums of ``Consumer.counters`` since the topic was loaded, including those of earlier consumers."""
        messages, size, acked, redelivered = zip(self._left, *[consumer.counters for consumer in self], strict=True)
        return sum(messages), sum(size), sum(acked), sum(redelivered)

    def summary(self) -> ConsumersSummary:
        """Return the figures of all consumers together, including those of earlier ones."""
        messages, size, _, _ = self._left
        unacked, sent_at, flow_at = 0, self._last_sent_at, self._last_flow_at
        for consumer in self:
            messages += consumer.messages_sent
            size += consumer.bytes_sent
            unacked += consumer.unacked_messages
            sent_at, flow_at = max(sent_at, consumer.last_sent_at), max(flow_at, consumer.last_flow_at)
        return ConsumersSummary(messages, size, unacked, sent_at, flow_at)

    def conflicting(self, options: ConsumerOptions) -> list[Consumer]:
        """Return connected consumers that conflict with the request, if they are still alive."""
        if self.dispatcher is None or options.type != self.type:
            return []
        return self.dispatcher.conflicting(options)

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if the request conflicts with connected consumers."""
        if self.dispatcher is None or not self.dispatcher.consumers:
            return
        if options.type != self.type:
            raise RequestError(ServerError.ConsumerBusy, "Subscription is of different type")
        self.dispatcher.check_can_add(options)

    def add(self, consumer: Consumer, make: Callable[[Consumer], Dispatcher]) -> None:
        """Admit a consumer that ``check_can_add`` accepted; ``make`` makes the dispatcher for a first consumer."""
        if self.dispatcher is None or self.type != consumer.type or not self.dispatcher.accepts(consumer):
            if self.dispatcher is not None:
                self.dispatcher.close()
            self.type = consumer.type
            self.dispatcher = make(consumer)
        self.dispatcher.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a connected consumer."""
        assert self.dispatcher is not None
        self._note_departure(consumer)
        self.dispatcher.remove(consumer)

    def detach_all(self) -> deque[Consumer]:
        """Remove all consumers, and return them for ``Consumer.close``.

        From now on they get no messages, and their commands are ignored.
        """
        dispatcher, self.dispatcher = self.dispatcher, None
        if dispatcher is None:
            return deque()
        dispatcher.close()
        leaving = deque(dispatcher.consumers)
        for consumer in leaving:
            self._note_departure(consumer)
            consumer.session.forget_consumer(consumer)
        return leaving

    def _note_departure(self, consumer: Consumer) -> None:
        messages, size, acked, redelivered = consumer.counters
        left = self._left
        self._left = (left[0] + messages, left[1] + size, left[2] + acked, left[3] + redelivered)
        self._last_sent_at = max(self._last_sent_at, consumer.last_sent_at)
        self._last_flow_at = max(self._last_flow_at, consumer.last_flow_at)

    def holders(self, entries: Range) -> list[Consumer]:
        """Return the consumers that hold some of these unacknowledged entries."""
        return self.dispatcher.holders(entries) if self.dispatcher is not None else []

    def taken(self) -> Iterable[Position]:
        """Return the entries that consumers hold or that are about to be sent; empty if they are not tracked."""
        return self.dispatcher.taken() if isinstance(self.dispatcher, MultipleConsumersDispatcher) else ()

    def messages_deleted(self, batches: Iterable[Position], by: Consumer) -> None:
        """Record that messages of these batches were acknowledged, if they are tracked."""
        if isinstance(self.dispatcher, MultipleConsumersDispatcher):
            self.dispatcher.messages_deleted(batches, by)


class SentToRemoved:
    """What the removed subscriptions of a topic got since the topic was loaded."""

    def __init__(self) -> None:
        """Begin with 0."""
        self.messages = 0
        self.bytes = 0

    def add(self, consumers: SubscriptionConsumers) -> None:
        """Add what the consumers of a subscription that is removed got."""
        messages, size, _, _ = consumers.counters()
        self.messages += messages
        self.bytes += size


def dispatcher_for(unread: DispatchedEntries, consumer: Consumer) -> Dispatcher:
    """Return a dispatcher of ``unread`` for the type of a first consumer."""
    match consumer.type:
        case pb.CommandSubscribe.Shared:
            return SharedDispatcher(unread)
        case pb.CommandSubscribe.Key_Shared:
            return KeySharedDispatcher(unread, consumer.key_shared_policy)
    return SingleActiveDispatcher(unread, exclusive=consumer.type == pb.CommandSubscribe.Exclusive)
