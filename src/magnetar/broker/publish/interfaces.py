"""Protocols of producers for sessions and topics, and of sessions and topics for producers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from magnetar.broker.log.interfaces import AnyTopic, LoggedTopic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from magnetar.base.errors import RequestError, StorageError
    from magnetar.base.position import Position
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.broker.publish.arrivals import Arrivals
    from magnetar.broker.resources.token_bucket import PublishLimit
    from magnetar.wire.proto import pulsar_api_pb2 as pb

SendHead = tuple[int, int, int]
"""``sequence_id``, ``highest_sequence_id`` (0 if there is none) and ``num_messages`` of a SEND.

``num_messages`` is 0 for a chunk that is not the last of its message.
"""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Options of a producer from PRODUCER, with the final name."""

    producer_id: int
    name: str
    epoch: int = 0
    user_provided_name: bool = False
    access_mode: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    schema_version: bytes = b""
    """The version of its schema, as clients write it into messages; empty without a schema."""


class ProducerSession(Protocol):
    """The connection of a producer."""

    @property
    def address(self) -> str:
        """Address of the client."""
        ...

    @property
    def client_version(self) -> str:
        """Version of the client."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        ...

    @property
    def producers(self) -> Mapping[int, Producer]:
        """Producers of the connection, by id."""
        ...

    undelivered: int
    """SENDs to non-persistent topics that are being distributed."""

    def write(self, frame: bytes) -> None:
        """Send a frame; no effect after the connection is closed."""
        ...

    async def is_alive(self) -> bool:
        """Return whether the client answers a PING in time."""
        ...

    def close_producer(self, producer: Producer) -> None:
        """Remove a producer and close it at the client, which looks the topic up again."""
        ...

    def publishes_started(self, count: int, size: int) -> None:
        """Add SENDs, and their bytes, that are being stored."""
        ...

    def publishes_finished(self, count: int, size: int) -> None:
        """Remove SENDs that are stored or have failed."""
        ...

    def hold_back(self, limit: PublishLimit) -> None:
        """Do not read the client while it exceeds a rate."""
        ...

    def receipts_withheld(self, count: int) -> None:
        """Change the number of withheld receipts."""
        ...


class Access(Protocol):
    """Access of producers to a topic."""

    @property
    def topic_epoch(self) -> int | None:
        """The epoch of the last exclusive producer; None before the first one."""
        ...

    def when_decided(self, producer: Producer, tell: Callable[[RequestError | None], None]) -> None:
        """Call ``tell`` once: when this waiting producer gets the topic, or with the reason why it cannot."""
        ...


class Duplicates(Protocol):
    """The deduplication of a topic."""

    @property
    def sequence_ids(self) -> object | None:
        """Sequence ids; None while deduplication is off."""
        ...

    def at_once(self, heads: Sequence[SendHead], entries: Sequence[bytes]) -> int:
        """Return the number of SENDs of a run that may be published in one turn."""
        ...


class StoredDuplicates(Duplicates, Protocol):
    """The deduplication of a topic with a log."""

    def publish(self, producer: StoringProducer, heads: Sequence[SendHead], entries: list[bytes]) -> int:
        """Publish new messages; return their number."""
        ...


class Receipts(Protocol):
    """The gate that may withhold receipts of a topic."""

    @property
    def gate(self) -> object | None:
        """None while receipts are not limited."""
        ...

    def after(self, session: ProducerSession, last: Position, receipts: int, write: Callable[[], None]) -> None:
        """Call ``write``, which writes receipts up to that of ``last``, as soon as the limit allows it."""
        ...

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None], answers: int = 1) -> None:
        """Call ``write``, which writes ``answers``, after the withheld receipts of ``session``."""
        ...


class Delays(Protocol):
    """The delayed delivery of a topic."""

    def check(self, metadata: pb.MessageMetadata) -> None:
        """Raise RequestError for a message with a time of delivery that the topic does not allow."""
        ...


class Producers(Protocol):
    """The producers of a topic, as their sessions use them."""

    @property
    def access(self) -> Access:
        """Access of producers."""
        ...

    def get(self, name: str, /) -> Producer | None:
        """Return the connected producer with this name."""
        ...

    def awaited(self, *, is_link: bool) -> Awaitable[None] | None:
        """Return the event that a new producer must await; None if there is none."""
        ...

    def prepare(self, options: ProducerOptions, initial_subscription: str) -> Awaitable[None] | None:
        """Do what must be durable before a new producer is admitted; return its event, None if nothing is new.

        Raises RequestError for a link that may not attach. ``initial_subscription`` is empty, or is ensured to exist.
        """
        ...

    def make(self, session: ProducerSession, options: ProducerOptions) -> Producer:
        """Return a new producer, which is not admitted yet; raises RequestError if the topic accepts none."""
        ...

    def admit(self, producer: Producer, topic_epoch: int | None) -> bool:
        """Admit the producer of a client; return False if it waits for exclusive access. Raises RequestError."""
        ...

    def replace(self, producer: Producer) -> None:
        """Admit the producer of a link; it replaces one of the same name. Raises RequestError."""
        ...

    def settled(self, producer: Producer) -> Callable[[Callable[[StorageError | None], None]], None] | None:
        """Return how to call a function when a new producer may be answered; None if it may be now."""
        ...

    def last_sequence_id(self, name: str) -> int:
        """Return the last sequence id of a producer; -1 if it is unknown."""
        ...

    def remove(self, producer: Producer) -> None:
        """Remove a producer."""
        ...

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None]) -> None:
        """Call ``write`` after the receipts of the earlier SENDs of ``session``."""
        ...

    def dismiss(self) -> None:
        """Disconnect all producers, which may reconnect."""
        ...


class LinkedProducers(Producers, Protocol):
    """The producers of a topic with links."""

    def arrivals_from(self, source: str) -> Arrivals:
        """Return the counters of messages from another cluster."""
        ...


class ProducerTopic(AnyTopic, Protocol):
    """The topic, as its producers and their sessions use it, whether its entries are stored or not."""

    @property
    def is_closing(self) -> bool:
        """Whether arriving entries are dropped without an answer."""
        ...

    @property
    def arrivals(self) -> Arrivals:
        """Messages of all producers and links."""
        ...

    @property
    def producers(self) -> Producers:
        """The producers."""
        ...

    @property
    def deduplication(self) -> Duplicates:
        """Deduplication of the topic."""
        ...

    @property
    def delayed(self) -> Delays:
        """Delayed delivery."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are being removed."""
        ...


class PublishedTopic(ProducerTopic, LoggedTopic, Protocol):
    """The topic, as producers use it whose entries are stored."""

    @property
    def producers(self) -> LinkedProducers:
        """The producers."""
        ...

    @property
    def deduplication(self) -> StoredDuplicates:
        """Deduplication of the topic."""
        ...

    @property
    def lag_limit(self) -> Receipts:
        """Gate of withheld receipts."""
        ...


class Producer(Protocol):
    """A producer, as its session uses it."""

    is_link: ClassVar[bool]
    """Whether it is a link from another cluster; otherwise it is a producer of a client."""
    options: ProducerOptions

    @property
    def topic(self) -> ProducerTopic:
        """Topic of the producer."""
        ...

    @property
    def session(self) -> ProducerSession:
        """Connection of the producer."""
        ...

    check: Callable[[bytes], pb.MessageMetadata | None]
    """Checks an entry; returns the metadata if it may affect dispatch.

    Raises ChecksumMismatchError or RemoteProtocolError for an entry that must not be passed to ``publish``. Readers
    rely on the fact that unreadable entries are never stored; they are refused here or in ``publish``.
    """

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Publish the intact entries of one read of the socket, at least one, as one run; each SEND is answered."""
        ...

    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Publish a run with invalid entries, each of which is replaced by the refusal of its SEND."""
        ...


class StoringProducer(Producer, Protocol):
    """A producer of a topic with a log."""

    @property
    def topic(self) -> PublishedTopic:
        """Topic of the producer."""
        ...
