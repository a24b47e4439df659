"""Producers as sessions and topics see them, and what producers need of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from magnetar.broker.log.interfaces import LoggedTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from magnetar.base.errors import RequestError
    from magnetar.base.position import Position
    from magnetar.broker.delayed.index import DelayedIndex
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.wire.proto import pulsar_api_pb2 as pb

SendHead = tuple[int, int, int]
"""Of a SEND: its ``sequence_id``, ``highest_sequence_id`` (0 when there is none) and ``num_messages``.

Of a chunk that is not its message's last, the latter is 0: no message is complete with it.
"""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """What a producer asked for in PRODUCER, after the broker has named it."""

    producer_id: int
    name: str
    epoch: int = 0
    user_provided_name: bool = False
    access_mode: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


class ProducerSession(Protocol):
    """The connection that a producer came by."""

    @property
    def address(self) -> str:
        """The client's address."""
        ...

    @property
    def client_version(self) -> str:
        """How the client names itself."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the connection is there."""
        ...

    @property
    def producers(self) -> Mapping[int, Producer]:
        """Its producers, by their ids."""
        ...

    def write(self, frame: bytes) -> None:
        """Send a frame; nothing happens once the connection is gone."""
        ...

    async def is_alive(self) -> bool:
        """Whether the client answers a ping in time."""
        ...

    def close_producer(self, producer: Producer) -> None:
        """Remove a producer, and tell the client to look the topic up again."""
        ...

    def publishes_started(self, count: int, size: int) -> None:
        """So many SENDs, of so many bytes together, are being stored."""
        ...

    def publishes_finished(self, count: int, size: int) -> None:
        """So many SENDs are stored, or never will be."""
        ...

    def receipts_withheld(self, count: int) -> None:
        """So many more receipts wait; fewer if negative."""
        ...


class Access(Protocol):
    """Who may publish to a topic."""

    @property
    def topic_epoch(self) -> int | None:
        """The epoch of the last exclusive producer; None before the first one."""
        ...

    def when_decided(self, producer: Producer, tell: Callable[[RequestError | None], None]) -> None:
        """Call ``tell`` once: when this waiting producer has the topic, or with why it never will."""
        ...


class PublishCounters(Protocol):
    """What was published to a topic since it was loaded."""

    messages_in: int


class Duplicates(Protocol):
    """The deduplication of a topic."""

    @property
    def sequence_ids(self) -> object | None:
        """None while it is off."""
        ...

    def publish(self, producer: Producer, heads: Sequence[SendHead], entries: list[bytes]) -> int:
        """Publish what is not here yet; return the number of messages that are new."""
        ...

    def at_once(self, heads: Sequence[SendHead], entries: Sequence[bytes]) -> int:
        """How many of a run may be published in one turn."""
        ...

    def last_sequence_id(self, name: str) -> int:
        """The last sequence id of a producer; -1 for one that is not known."""
        ...


class Receipts(Protocol):
    """What may hold back the receipts of a topic."""

    @property
    def gate(self) -> object | None:
        """None while nothing is held back."""
        ...

    def after(self, session: ProducerSession, last: Position, receipts: int, write: Callable[[], None]) -> None:
        """Call ``write``, which writes so many receipts up to that of ``last``, as soon as that is allowed."""
        ...

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None]) -> None:
        """Call ``write`` behind the receipts that ``session`` waits for."""
        ...


class Producers(Protocol):
    """The producers of a topic."""

    @property
    def access(self) -> Access:
        """Who may publish."""
        ...

    def remove(self, producer: Producer) -> None:
        """A producer left."""
        ...

    def dismiss(self) -> None:
        """Send everybody away who publishes; they may come again."""
        ...


class PublishedTopic(LoggedTopic, Protocol):
    """What producers and their sessions need of the topic."""

    @property
    def is_closing(self) -> bool:
        """Whether entries that come are dropped, unanswered."""
        ...

    @property
    def counters(self) -> PublishCounters:
        """What was published."""
        ...

    @property
    def producers(self) -> Producers:
        """Who publishes."""
        ...

    @property
    def deduplication(self) -> Duplicates:
        """What was published before."""
        ...

    @property
    def lag_limit(self) -> Receipts:
        """Which receipts are held back."""
        ...

    @property
    def delayed(self) -> DelayedIndex:
        """The entries that wait for their time."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are still to be removed."""
        ...


class Producer(Protocol):
    """What a session needs of any kind of producer."""

    options: ProducerOptions

    @property
    def topic(self) -> PublishedTopic:
        """The topic that it publishes to."""
        ...

    @property
    def session(self) -> ProducerSession:
        """The connection that it came by."""
        ...

    check: Callable[[bytes], pb.MessageMetadata | None]
    """Returns the metadata where it may say something about dispatch.

    Raises ChecksumMismatchError or RemoteProtocolError for an entry that must not get as far as ``publish``.
    An entry that nobody could read is not stored, so it ends here or there: all readers count on that.
    """

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Publish the intact entries of one read of the socket, at least one, as one run; each SEND is answered."""
        ...

    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """As ``publish``, where some entries cannot be taken: in the place of each is what its SEND is answered."""
        ...
