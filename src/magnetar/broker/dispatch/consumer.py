"""One consumer of a subscription: its credit, and what it holds unacknowledged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from magnetar.base.position import Position
from magnetar.broker.dispatch.entry_counts import EntryCounts
from magnetar.wire import commands
from magnetar.wire.entries import ack_set
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.broker.loop.under_way import UnderWay


@dataclass(frozen=True, slots=True)
class KeySharedPolicy:
    """What all consumers of a Key_Shared subscription agree on."""

    mode: int = pb.AUTO_SPLIT
    allow_out_of_order_delivery: bool = False

    @property
    def mode_name(self) -> str:
        """``AUTO_SPLIT`` or ``STICKY``."""
        return pb.KeySharedMode.Name(pb.KeySharedMode.ValueType(self.mode))


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """What a consumer asked for in SUBSCRIBE."""

    consumer_id: int
    name: str
    type: int
    """A ``CommandSubscribe.SubType``."""
    priority_level: int = 0
    key_shared_policy: KeySharedPolicy = field(default_factory=KeySharedPolicy)
    hash_ranges: tuple[tuple[int, int], ...] = ()
    """The sticky keys that it wants to have, by their hashes: ranges, each with both its ends."""
    metadata: dict[str, str] = field(default_factory=dict)


class Delivery(NamedTuple):
    """One entry on its way to a consumer, of a ledger that goes without saying."""

    entry_id: int
    entry: bytes
    messages: int
    """Messages in the entry that are not yet acknowledged: what it costs in permits."""
    redelivery_count: int = 0
    remaining: int | None = None
    """Bit set of the batch members still to acknowledge; None when none of them is acknowledged."""


class ConsumerSession(Protocol):
    """The connection that a consumer came by."""

    @property
    def address(self) -> str:
        """The client's address."""
        ...

    @property
    def client_version(self) -> str:
        """How the client names itself."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the client reads what it is sent."""
        ...

    def write(self, frame: bytes) -> None:
        """Send a frame; nothing happens once the connection is gone."""
        ...

    async def is_alive(self) -> bool:
        """Whether the client answers a ping in time."""
        ...

    def close_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer, and tell the client to subscribe again."""
        ...

    def forget_consumer(self, consumer: Consumer) -> None:
        """Take nothing from a consumer any more."""
        ...

    def active_consumer_changed(self, consumer: Consumer, *, is_active: bool) -> None:
        """Tell a Failover consumer whether it is the one that receives."""
        ...


class ConsumedTopic(Protocol):
    """The topic that a consumer receives from."""

    @property
    def name(self) -> TopicName:
        """Its name."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are still to be removed."""
        ...

    def notify(self) -> None:
        """There may be something to dispatch."""
        ...


class ConsumedSubscription(Protocol):
    """What a consumer consumes: a subscription, or a link to another cluster."""

    @property
    def topic(self) -> ConsumedTopic:
        """The topic."""
        ...

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer left."""
        ...

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """Apply one ACK; ``done`` is called once it is durable."""
        ...

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Apply ACKs of single, whole entries of one ledger."""
        ...

    def dispatch(self) -> None:
        """Send what can be sent in one turn."""
        ...


class Consumer:
    """A connected consumer. Permits count messages and may go below zero by part of one batch."""

    def __init__(
        self, subscription: ConsumedSubscription, session: ConsumerSession, options: ConsumerOptions, *, now: float
    ) -> None:
        """A consumer without permits: it receives nothing before its first FLOW."""
        self.subscription = subscription
        self.session = session
        self.consumer_id = options.consumer_id
        self.name = options.name
        self.type = options.type
        self.key_shared_policy = options.key_shared_policy
        self.hash_ranges = options.hash_ranges
        self.partition = subscription.topic.name.partition_index
        self.priority_level = options.priority_level
        self.metadata = options.metadata
        self.connected_at = now
        self.permits = 0
        self.epoch = 0
        self.pending = EntryCounts()
        """Messages of the entries sent and not acknowledged. Kept by Shared and Key_Shared subscriptions only."""
        self.blocked = False
        """Too many unacknowledged messages (``maxUnackedMessagesPerConsumer``); freed at half of it."""
        self.messages_sent = 0
        self.bytes_sent = 0
        self.messages_redelivered = 0
        self.last_sent_at = 0.0
        self.last_acked_at = 0.0
        self.last_flow_at = 0.0

    @property
    def unacked_messages(self) -> int:
        """Messages sent and not acknowledged; 0 unless the subscription is Shared or Key_Shared."""
        return self.pending.total

    @property
    def is_ready(self) -> bool:
        """Whether it may be sent a message now: credit left, not blocked, and its socket takes more."""
        return self.permits > 0 and not self.blocked and self.session.is_writable

    def send(self, ledger_id: int, run: Sequence[Delivery], now: float) -> None:
        """Write a MESSAGE for each of the entries, at least one, and take their permits."""
        entry_ids, entries, messages, redelivery_counts, remainders = zip(*run, strict=True)
        sent = sum(messages)
        self.permits -= sent
        self.messages_sent += sent
        self.bytes_sent += sum(map(len, entries))
        self.last_sent_at = now
        if self.epoch or any(redelivery_counts) or remainders.count(None) < len(run):
            frames = b"".join([self._message(Position(ledger_id, delivery.entry_id), delivery) for delivery in run])
        else:
            frames = commands.messages(
                consumer_id=self.consumer_id,
                ledger_id=ledger_id,
                entry_ids=entry_ids,
                entries=entries,
                partition=self.partition,
            )
        self.session.write(frames)

    def _message(self, position: Position, delivery: Delivery) -> bytes:
        words = () if delivery.remaining is None else ack_set.int_to_words(delivery.remaining)
        return commands.message(
            consumer_id=self.consumer_id,
            position=position,
            entry=delivery.entry,
            partition=self.partition,
            delivery=commands.Delivery(delivery.redelivery_count, words, self.epoch or None),
        )

    def close(self) -> None:
        """Tell the client to subscribe again, as after an unload or a seek."""
        self.session.close_consumer(self)
