"""A consumer of a subscription: its permits and its unacknowledged messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from magnetar.base.position import Position
from magnetar.base.rates import Rates
from magnetar.broker.dispatch.entry_counts import EntryCounts
from magnetar.wire import commands
from magnetar.wire.entries import ack_set
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.wire.entries.original_position import OriginalPositions


_BREAKS_AT_END = "Pulsar-CPP"
_UNDERSTANDS_END = "Pulsar-Java"
"""Beginnings of the versions of clients, see ``Consumer.tell_end``."""


@dataclass(frozen=True, slots=True)
class KeySharedPolicy:
    """The policy that all consumers of a Key_Shared subscription share."""

    mode: int = pb.AUTO_SPLIT
    allow_out_of_order_delivery: bool = False

    @property
    def mode_name(self) -> str:
        """``AUTO_SPLIT`` or ``STICKY``."""
        return pb.KeySharedMode.Name(pb.KeySharedMode.ValueType(self.mode))


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a SUBSCRIBE."""

    consumer_id: int
    name: str
    type: int
    """A ``CommandSubscribe.SubType``."""
    priority_level: int = 0
    key_shared_policy: KeySharedPolicy = field(default_factory=KeySharedPolicy)
    hash_ranges: tuple[tuple[int, int], ...] = ()
    """Requested hash ranges of sticky keys, with inclusive bounds."""
    metadata: dict[str, str] = field(default_factory=dict)
    is_auto_consume: bool = False
    """Whether it takes the schema of the topic, whatever it is."""
    original_positions: OriginalPositions | None = None
    """Adds the property that states where a message was published; None unless the consumer asks for it."""


class Delivery(NamedTuple):
    """An entry on its way to a consumer. Its ledger is given separately."""

    entry_id: int
    entry: bytes
    messages: int
    """Number of unacknowledged messages in the entry; the permits that it uses."""
    redelivery_count: int = 0
    remaining: int | None = None
    """Bit set of the unacknowledged batch members; None when none is acknowledged."""


Counters = tuple[int, int, int, int]
"""Messages sent, bytes sent, messages acknowledged, and messages sent again."""


class ConsumerSession(Protocol):
    """The connection of a consumer."""

    @property
    def address(self) -> str:
        """The client's address."""
        ...

    @property
    def client_version(self) -> str:
        """Version string of the client."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the send buffer has room."""
        ...

    def write(self, frame: bytes) -> None:
        """Send a frame; no effect when the connection is closed."""
        ...

    async def is_alive(self) -> bool:
        """Return whether the client answers a ping in time."""
        ...

    def close_consumer(self, consumer: Consumer, *, rests: bool = False) -> None:
        """Remove a consumer, and request that the client subscribes again, if its link ``rests`` when this is due."""
        ...

    def forget_consumer(self, consumer: Consumer) -> None:
        """Ignore further commands for a consumer."""
        ...

    def active_consumer_changed(self, consumer: Consumer, *, is_active: bool) -> None:
        """Notify a Failover consumer whether it is the active one."""
        ...


class ConsumedTopic(Protocol):
    """The topic of a consumer."""

    @property
    def name(self) -> TopicName:
        """Its name."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are being removed."""
        ...

    def notify(self) -> None:
        """Schedule a dispatch."""
        ...


class ConsumedSubscription(Protocol):
    """The source of a consumer's entries: a subscription, or a link to another cluster."""

    @property
    def topic(self) -> ConsumedTopic:
        """The topic."""
        ...

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if a consumer with this request is refused."""
        ...

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        ...

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """Apply one ACK; ``done`` is called when it is durable."""
        ...

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Apply ACKs of single whole entries of one ledger."""
        ...

    def dispatch(self) -> None:
        """Send the entries of one turn."""
        ...


class Consumer:
    """A connected consumer. Permits count messages and may go below zero by part of one batch."""

    def __init__(
        self, subscription: ConsumedSubscription, session: ConsumerSession, options: ConsumerOptions, *, now: float
    ) -> None:
        """Create a consumer without permits: it receives nothing before its first FLOW."""
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
        self.is_auto_consume = options.is_auto_consume
        self._original_positions = options.original_positions
        self.connected_at = now
        self.permits = 0
        self.epoch: int | None = None
        """Number of the client's last request to send all messages again; None if the client does not number them."""
        self.pending = EntryCounts()
        """Messages of the unacknowledged entries. Used by Shared and Key_Shared subscriptions only."""
        self.blocked = False
        """Whether too many messages are unacknowledged (``maxUnackedMessagesPerConsumer``); reset at half of that."""
        self.at_first_flow: Callable[[], None] | None = None
        """Called at the first FLOW."""
        self.entries_sent = 0
        self._is_told_end = False
        self.messages_sent = 0
        self.bytes_sent = 0
        self.messages_redelivered = 0
        self.messages_acked = 0.0
        """Messages in the entries that it acknowledged completely. An estimate for Exclusive and Failover, which do not
        keep the messages of sent entries: entries with the average number of messages."""
        self.rates = Rates(4)
        """Rates of ``counters``."""
        self.last_sent_at = 0.0
        self.last_acked_at = 0.0
        self.last_flow_at = 0.0

    @property
    def unacked_messages(self) -> int:
        """Number of messages sent and not acknowledged; 0 unless the subscription is Shared or Key_Shared."""
        return self.pending.total

    @property
    def messages_per_entry(self) -> float:
        """Average number of messages in the entries that were sent; 0.0 before the first entry."""
        return self.messages_sent / self.entries_sent if self.entries_sent else 0.0

    @property
    def counters(self) -> Counters:
        """The counters since the consumer was connected."""
        return self.messages_sent, self.bytes_sent, int(self.messages_acked), self.messages_redelivered

    @property
    def is_ready(self) -> bool:
        """Whether a message may be sent now: it has permits, is not blocked, and its send buffer has room."""
        return self.permits > 0 and not self.blocked and self.session.is_writable

    def send(self, ledger_id: int, run: Sequence[Delivery], now: float, epoch: int | None = None) -> None:
        """Write a MESSAGE for each entry (at least one), with ``epoch`` unless it is None, and use their permits."""
        if self._original_positions is not None:
            added = self._original_positions.added
            run = [each._replace(entry=added(Position(ledger_id, each.entry_id), each.entry)) for each in run]
        entry_ids, entries, messages, redelivery_counts, remainders = zip(*run, strict=True)
        sent = sum(messages)
        self.permits -= sent
        self.entries_sent += len(run)
        self.messages_sent += sent
        self.bytes_sent += sum(map(len, entries))
        self.last_sent_at = now
        if any(redelivery_counts) or remainders.count(None) < len(run):
            frames = b"".join([self._message(Position(ledger_id, each.entry_id), each, epoch) for each in run])
        else:
            frames = commands.messages(
                consumer_id=self.consumer_id,
                ledger_id=ledger_id,
                entry_ids=entry_ids,
                entries=entries,
                partition=self.partition,
                consumer_epoch=epoch,
            )
        self.session.write(frames)

    def _message(self, position: Position, delivery: Delivery, epoch: int | None) -> bytes:
        words = () if delivery.remaining is None else ack_set.int_to_words(delivery.remaining)
        return commands.message(
            consumer_id=self.consumer_id,
            position=position,
            entry=delivery.entry,
            partition=self.partition,
            delivery=commands.Delivery(delivery.redelivery_count, words, epoch),
        )

    def tell_end(self, *, is_new: bool = False) -> None:
        """Tell the client, once, that its topic is terminated and read to the end.

        The C++ client and those based on it close their connection when they receive this command, so they are not
        told. Apache Pulsar does not tell a new consumer (``is_new``); it is told here if its client is known to
        understand the command.
        """
        version = self.session.client_version
        is_understood = version.startswith(_UNDERSTANDS_END) if is_new else not version.startswith(_BREAKS_AT_END)
        if is_understood and not self._is_told_end:
            self._is_told_end = True
            self.session.write(commands.reached_end_of_topic(consumer_id=self.consumer_id))

    def close(self) -> None:
        """Request that the client subscribes again, as after an unload or a seek."""
        self.session.close_consumer(self)
