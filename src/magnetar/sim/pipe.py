"""A link driven step by step: from the replicator of a source cluster to the receiver of a target cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.links import (
    COPIES_METADATA,
    CUSTODY_IN_RUNS,
    CUSTODY_METADATA,
    CUSTODY_ONE_BY_ONE,
    LEASE_METADATA,
    LIFE_METADATA,
    PARKED_METADATA,
    RUNS_METADATA,
    link_producer,
    link_subscription,
)
from magnetar.wire.message_id import LinkRun, link_of, message_id, origin_of, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.names import TopicName


@dataclass
class Pipe:
    """The moves of a pipeline task, one at a time. ``attach`` resets its state."""

    source: Cluster
    target: Cluster
    lease: int = 0
    topic: TopicName = TOPIC
    carried: list[tuple[Position, bytes | LinkRun]] = field(default_factory=list)
    """Stamped entries, and runs of entries in custody, that were read and not sent; each with its last position."""
    unconfirmed: dict[int, Position] = field(default_factory=dict)
    last_origin: Position | None = None
    gaps: int = 0
    copies: bool = True
    """Whether it declares that it carries copies (broker/replication/outbound/copies.py)."""
    custody: str = CUSTODY_ONE_BY_ONE
    """How it declares that it carries entries in custody (broker/replication/outbound/custody.py); empty: it does not.
    """
    parked: str = ""
    """Reason for which the target refused an entry before; empty without one."""
    refusals: list[Any] = field(default_factory=list)
    """Error responses to the last ``attach``."""
    _sequence_id: int = 0

    @property
    def entries(self) -> list[bytes]:
        """Return the stamped entries that were read and not sent, without runs."""
        return [each for _, each in self.carried if isinstance(each, bytes)]

    def attach(self, *, seek: bool = True, permits: int = 5) -> None:
        """Take over the link with a new lease; ``seek``: start after the newest entry of the source in the target."""
        self.lease += 1
        self.carried.clear()
        self.unconfirmed.clear()
        self.reader, self.writer = self.source.client(), self.target.client()
        self.writer.topic = self.topic
        self.open_producer()
        body = pb.CommandSubscribe(
            topic=str(self.topic),
            subscription=link_subscription(self.target.name),
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=1,
            request_id=self.reader.request_id(),
            metadata=commands.key_values(
                {LEASE_METADATA: str(self.lease)}
                | ({COPIES_METADATA: "true"} if self.copies else {})
                | ({CUSTODY_METADATA: self.custody} if self.custody else {})
                | ({RUNS_METADATA: "true"} if self.custody == CUSTODY_IN_RUNS else {})
                | ({PARKED_METADATA: self.parked} if self.parked else {})
            ),
        )
        self.reader.say(commands.subscribe(body))
        self.refusals = self.reader.take("ERROR")
        self.reader.heard.clear()
        if seek and not self.refusals and self.last_origin is not None:
            self.seek(self.last_origin)
        self.flow(permits)

    def open_producer(self) -> None:
        """Open the producer of the target again; the target returns its newest position of the source."""
        name = link_producer(self.source.name, self.target.name)
        self.writer.session.producers.pop(1, None)
        life = self.source.store.life
        named = {} if life is None else {LIFE_METADATA: str(life)}
        self.writer.produce(name=name, epoch=self.lease, metadata=commands.key_values(named))
        for success in self.writer.take("PRODUCER_SUCCESS"):
            known = success.HasField("last_origin_message_id")
            self.last_origin = position_of(success.last_origin_message_id) if known else None

    def seek(self, position: Position, origin: str = "") -> None:
        """Seek to a position. Entries that arrive before the response were sent earlier and are dropped."""
        self.carried.clear()
        request_id = self.reader.request_id()
        self.reader.say(commands.seek(consumer_id=1, request_id=request_id, position=position, origin=origin))
        kinds = [frame.command.type for frame in self.reader.heard]
        del self.reader.heard[: kinds.index(pb.BaseCommand.SUCCESS) + 1]
        self.read()

    def flow(self, permits: int) -> None:
        """Grant permits to the source."""
        self.reader.say(commands.flow(consumer_id=1, message_permits=permits))
        self.read()

    def read(self) -> None:
        """Read the entries that the source has sent."""
        for frame in self.reader.heard:
            message = frame.command.message
            if frame.command.type == pb.BaseCommand.MESSAGE:
                position, link, sizes = position_of(message.message_id), link_of(message), message.entry_sizes
                if sizes:
                    run = LinkRun(position, link, sizes, message.schema_version, frame.body, origin_of(message))
                    last = position._replace(entry_id=position.entry_id + len(sizes) - 1)
                    self.carried.append((last, run))
                else:
                    origin = Origin(self.source.name, position, link.previous, link.floor, link.link_start)
                    self.carried.append((position, stamp(frame.body, origin)))
        self.reader.heard.clear()

    def send(self, count: int, *, twice: bool = False) -> None:
        """Send the oldest entries in one read of the target's socket."""
        frames = []
        for position, entry in self.carried[:count]:
            for _ in range(1 + twice):
                self._sequence_id += 1
                self.unconfirmed[self._sequence_id] = position
                frames.append(_send_frame(self._sequence_id, entry))
        del self.carried[:count]
        if frames:
            self.writer.say(*frames)

    def confirm(self) -> None:
        """Pass receipts to the source; after a gap, start again after the newest entry in the target."""
        for receipt in self.writer.take("SEND_RECEIPT"):
            position = self.unconfirmed.pop(receipt.sequence_id)
            ids = [message_id(position)]
            self.reader.say(commands.ack(consumer_id=1, message_ids=ids, cumulative=True))
            self.reader.say(commands.flow(consumer_id=1, message_permits=1))
        errors = self.writer.take("SEND_ERROR")
        if errors:
            assert {error.error for error in errors} == {ServerError.PersistenceError}
            self.gaps += 1
            self.unconfirmed.clear()
            self.open_producer()
            if errors[0].origin_cluster:
                self.seek(position_of(errors[0].last_origin_message_id), errors[0].origin_cluster)
            else:
                self.seek(self.last_origin or EARLIEST)
            self.flow(len(errors) + 1)
        self.read()

    def run(self) -> None:
        """Carry all entries."""
        for _ in range(50):
            self.send(100)
            self.confirm()
            if not self.carried and not self.unconfirmed:
                return
        message = "the link makes no progress"
        raise AssertionError(message)


def _send_frame(sequence_id: int, entry: bytes | LinkRun) -> bytes:
    if isinstance(entry, LinkRun):
        return commands.send_run(producer_id=1, sequence_id=sequence_id, run=entry)
    return commands.send(producer_id=1, sequence_id=sequence_id, entry=entry)


def read_all(cluster: Cluster) -> list[str]:
    """Return the entries of the topic, read by a consumer."""
    reader: Client = cluster.client()
    reader.subscribe(subscription="all", permits=10_000)
    texts = reader.messages()
    reader.say(commands.unsubscribe(consumer_id=1, request_id=reader.request_id()))
    return texts
