"""Producers: what becomes of the entries that a connection sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.base.errors import MagnetarError, StorageError
    from magnetar.base.position import Position
    from magnetar.broker.session import Session
    from magnetar.broker.topic import Topic
    from magnetar.wire.proto import pulsar_api_pb2 as pb

REPLICATOR_PREFIX = "pulsar.repl."
"""Names of replication cursors and of the producers that replicators use (protocol, 5.2)."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """What a producer asked for in PRODUCER, after the broker has named it."""

    producer_id: int
    name: str
    epoch: int = 0
    user_provided_name: bool = False
    access_mode: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


class Producer(Protocol):
    """What a session needs of any kind of producer."""

    options: ProducerOptions
    topic: Topic
    session: Session

    def add(self, send: pb.CommandSend, entry: bytes) -> None:
        """Take one entry of the current read of the socket."""
        ...

    def flush(self) -> None:
        """Publish what was taken since the last flush, as one run."""
        ...


class LocalProducer:
    """A client's producer: its entries are this cluster's own."""

    def __init__(self, topic: Topic, session: Session, options: ProducerOptions, *, now: float) -> None:
        """A producer that has published nothing yet."""
        self.topic = topic
        self.session = session
        self.options = options
        self.connected_at = now
        self.messages_in = 0
        self.bytes_in = 0
        self._sends: list[tuple[int, int]] = []
        self._entries: list[bytes] = []

    def add(self, send: pb.CommandSend, entry: bytes) -> None:
        """Take one entry of the current read of the socket."""
        self._sends.append((send.sequence_id, send.highest_sequence_id))
        self._entries.append(entry)
        self.messages_in += send.num_messages
        self.bytes_in += len(entry)
        self.topic.counters.messages_in += send.num_messages

    def flush(self) -> None:
        """Append the run; each SEND is receipted, in order, once the run is durable."""
        sends, entries = self._sends, self._entries
        self._sends, self._entries = [], []
        if not sends or self.topic.is_closing:
            return
        self.session.publishes_started(len(sends))

        def durable(first: Position, error: StorageError | None) -> None:
            self.session.publishes_finished(len(sends))
            if error is not None:
                answer_failed(self, sends, error)
                return
            for index, (sequence_id, highest) in enumerate(sends):
                self.session.write(
                    commands.send_receipt(
                        producer_id=self.options.producer_id,
                        sequence_id=sequence_id,
                        highest_sequence_id=highest,
                        position=first._replace(entry_id=first.entry_id + index),
                    )
                )

        self.topic.append_own(entries, durable)


def answer_failed(producer: Producer, sends: list[tuple[int, int]], error: MagnetarError) -> None:
    """Answer every SEND of a run that could not be made durable."""
    for sequence_id, highest in sends:
        producer.session.write(
            commands.send_error(
                producer_id=producer.options.producer_id,
                sequence_id=max(sequence_id, highest),
                code=ServerError.PersistenceError,
                message=str(error),
            )
        )


def answer_duplicate(producer: Producer, sequence_id: int, highest: int) -> None:
    """Receipt a SEND that is here already: Pulsar's position for it is -1:-1."""
    producer.session.write(
        commands.send_receipt(
            producer_id=producer.options.producer_id,
            sequence_id=sequence_id,
            highest_sequence_id=highest,
            position=EARLIEST,
        )
    )
