"""One consumer of a subscription: its credit, and what it holds unacknowledged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.wire import ack_set, commands

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.replicator import Replicator
    from magnetar.broker.session import Session
    from magnetar.broker.subscription import Subscription


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """What a consumer asked for in SUBSCRIBE."""

    consumer_id: int
    name: str
    priority_level: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


class Delivery(NamedTuple):
    """One entry on its way to a consumer."""

    position: Position
    entry: bytes
    messages: int
    """Messages in the entry that are not yet acknowledged: what it costs in permits."""
    redelivery_count: int = 0
    remaining: int | None = None
    """Bit set of the batch members still to acknowledge; None when none of them is acknowledged."""


class Consumer:
    """A connected consumer. Permits count messages and may go below zero by part of one batch."""

    def __init__(
        self, subscription: Subscription | Replicator, session: Session, options: ConsumerOptions, *, now: float
    ) -> None:
        """A consumer without permits: it receives nothing before its first FLOW."""
        self.subscription = subscription
        self.session = session
        self.consumer_id = options.consumer_id
        self.name = options.name
        self.partition = subscription.topic.name.partition_index
        self.priority_level = options.priority_level
        self.metadata = options.metadata
        self.connected_at = now
        self.permits = 0
        self.epoch = 0
        self.pending: dict[Position, int] = {}
        """Entries sent and not acknowledged, with their messages. Kept by Shared subscriptions only."""
        self.unacked_messages = 0
        self.blocked = False
        """Too many unacknowledged messages (``maxUnackedMessagesPerConsumer``); freed at half of it."""
        self.messages_sent = 0
        self.bytes_sent = 0
        self.messages_redelivered = 0
        self.last_sent_at = 0.0
        self.last_acked_at = 0.0
        self.last_flow_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether it may be sent a message now: credit left, not blocked, and its socket takes more."""
        return self.permits > 0 and not self.blocked and self.session.is_writable

    def send(self, delivery: Delivery, now: float) -> None:
        """Write one MESSAGE and take its permits."""
        self.permits -= delivery.messages
        self.messages_sent += delivery.messages
        self.bytes_sent += len(delivery.entry)
        self.last_sent_at = now
        if delivery.redelivery_count or delivery.remaining is not None or self.epoch:
            words = () if delivery.remaining is None else ack_set.int_to_words(delivery.remaining)
            how = commands.Delivery(delivery.redelivery_count, words, self.epoch or None)
        else:
            how = commands.FIRST_DELIVERY
        self.session.write(
            commands.message(
                consumer_id=self.consumer_id,
                position=delivery.position,
                entry=delivery.entry,
                partition=self.partition,
                delivery=how,
            )
        )

    def hold(self, position: Position, messages: int) -> None:
        """Remember an entry as sent and unacknowledged."""
        self.pending[position] = messages
        self.unacked_messages += messages

    def release(self, position: Position) -> bool:
        """Forget an entry that was acknowledged or goes elsewhere; whether it was held."""
        messages = self.pending.pop(position, None)
        if messages is None:
            return False
        self.unacked_messages -= messages
        return True

    def close(self) -> None:
        """Tell the client to subscribe again, as after an unload or a seek."""
        self.session.close_consumer(self)
