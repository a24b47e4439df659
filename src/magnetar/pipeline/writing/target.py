"""The writer's view of its target cluster: one producer per topic and source, opened when its first entry comes."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.position import Position
from magnetar.geo.receiving import Verdict
from magnetar.pipeline.connections.cluster import BrokerConnection, ClusterSession
from magnetar.pipeline.connections.reports import Receipts, Report, TargetDown, TargetUp
from magnetar.pipeline.writing.foreign_link import ForeignLink, Route
from magnetar.pipeline.writing.target_link import Action, TargetLink
from magnetar.wire import commands
from magnetar.wire.entries.entry import messages_in
from magnetar.wire.entries.markers import is_probe
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.links import LIFE_METADATA, gap_text, link_producer
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from magnetar.pipeline.connections.loop import Loop
    from magnetar.pipeline.rows import Carried
    from magnetar.wire.frame import Frame


class Producer:
    """A producer at one broker, and the link that it serves."""

    __slots__ = ("broker", "link", "number", "target_link")

    def __init__(self, target_link: TargetLink, number: int) -> None:
        """Serve ``target_link`` under the producer id ``number``; the broker is found by lookup."""
        self.target_link = target_link
        self.number = number
        self.broker: BrokerConnection | None = None
        self.link: ForeignLink | None = None
        """What a foreign target needs besides."""


class Target:
    """All producers of one writer."""

    def __init__(
        self,
        loop: Loop,
        name: str,
        lease: int,
        url: str,
        report: Callable[[Report], None],
        rng: Random,
    ) -> None:
        """Write to cluster ``name`` under ``lease``; `start` connects."""
        self._loop = loop
        self._name = name
        self._lease = lease
        self._report = report
        self._session = ClusterSession(loop, url, self, rng)
        self._producer_ids = itertools.count(1)
        self._target_links: dict[tuple[str, str], TargetLink] = {}
        self._serving: dict[TargetLink, Producer] = {}
        self._producers: dict[int, Producer] = {}
        self._confirmed: dict[int, Position] = {}

    @property
    def outstanding(self) -> int:
        """Entries that wait for a receipt or for their producer."""
        return sum(target_link.outstanding for target_link in self._target_links.values())

    def start(self) -> None:
        """Connect, and go on trying."""
        self._session.start()

    def close(self) -> None:
        """Drop all connections."""
        self._session.close()

    def send(self, entries: list[Carried]) -> None:
        """Send entries in order, opening producers as needed. While the target is down they are dropped."""
        if not self._session.service.up:
            return
        for carried in entries:
            key = carried.attachment.source, carried.attachment.topic
            target_link = self._target_links.get(key)
            if target_link is None:
                target_link = self._target_links[key] = TargetLink(*key)
            if target_link.is_of_earlier_life(carried):
                self._refuse(self._serving[target_link], "the source lost its data and came back", close=True)
            match target_link.offer(carried):
                case Action.SEND:
                    producer = self._serving[target_link]
                    if self._is_due(producer, carried):
                        self._send(producer, carried)
                case Action.OPEN:
                    self._open(target_link)
                case _:
                    pass

    def cluster_up(self) -> None:
        """Tell the reader."""
        self._report(TargetUp())

    def cluster_down(self, reason: str) -> None:
        """Forget everything under way and tell the reader, which gives up all its links."""
        for producer in list(self._producers.values()):
            self._refuse(producer, reason, told=False)
        self._report(TargetDown(reason))

    def broker_lost(self, broker: BrokerConnection, reason: str) -> None:
        """Refuse what the broker's producers had under way."""
        for producer in list(self._producers.values()):
            if producer.broker is broker:
                self._refuse(producer, reason)

    def received(self, broker: BrokerConnection, frame: Frame) -> None:
        """Take a receipt, a refusal, or the end of a producer."""
        del broker
        command = frame.command
        match command.type:
            case pb.BaseCommand.SEND_RECEIPT:
                if command.send_receipt.producer_id in self._producers:
                    self._receipt(self._producers[command.send_receipt.producer_id], command.send_receipt)
            case pb.BaseCommand.SEND_ERROR:
                error = command.send_error
                if error.producer_id in self._producers:
                    self._send_error(self._producers[error.producer_id], error)
            case pb.BaseCommand.CLOSE_PRODUCER:
                if command.close_producer.producer_id in self._producers:
                    producer = self._producers[command.close_producer.producer_id]
                    self._refuse(producer, "the target closed the producer")
            case pb.BaseCommand.MESSAGE:
                self._read(command.message, frame.body)
            case pb.BaseCommand.CLOSE_CONSUMER:
                if command.close_consumer.consumer_id in self._producers:
                    producer = self._producers[command.close_consumer.consumer_id]
                    self._refuse(producer, "the target closed the bookmark's consumer", close=True)

    def _read(self, message: pb.CommandMessage, entry: bytes) -> None:
        """Take an entry of a foreign target's log."""
        producer = self._producers.get(message.consumer_id)
        if producer is not None and producer.link is not None:
            producer.link.read(message, entry)

    def _is_due(self, producer: Producer, carried: Carried) -> bool:
        """Whether to send an entry: a foreign target would not say that it holds it, or that it misses one before."""
        if producer.link is None:
            return True
        bookmark = producer.link.bookmark
        bookmark.resume(carried)
        last = bookmark.last
        verdict = bookmark.judge(carried)
        if verdict is Verdict.DUPLICATE:
            producer.target_link.held(carried)
            self._settle(producer)
        elif verdict is Verdict.GAP:
            self._gap(producer, gap_text(carried.link.previous, last))
        elif verdict is Verdict.SKIP and is_probe(carried.entry):
            producer.target_link.held(carried)  # the bookmark has answered it
            self._settle(producer)
            return False
        return verdict in {Verdict.APPEND, Verdict.SKIP}

    def _send(self, producer: Producer, carried: Carried) -> None:
        source, position, link = carried.attachment.source, carried.position, carried.link
        try:
            entry = stamp(carried.entry, Origin(source, position, link.previous, link.floor, link.link_start))
            num_messages = messages_in(carried.entry)
        except MagnetarError as error:
            # Skipping it would lose it: the link stops here, loudly, until the source's log is repaired.
            self._refuse(producer, f"entry {position}: {error}", close=True)
            return
        assert producer.broker is not None
        frame = commands.send(
            producer_id=producer.number,
            sequence_id=producer.target_link.sent(carried),
            entry=entry,
            num_messages=num_messages,
            marker=carried.is_marker,
        )
        limit = producer.broker.frame_size_max
        if len(frame) > limit:
            # Sent, it would end the connection, and with it every other topic's link.
            reason = f"entry {position}: a frame of {len(frame)} bytes, {self._name} takes {limit} (maxMessageSize)"
            self._refuse(producer, reason, close=True)
            return
        producer.broker.send(frame)

    def _receipt(self, producer: Producer, receipt: pb.CommandSendReceipt) -> None:
        assert producer.broker is not None
        if producer.link is not None and not producer.link.ready:
            producer.link.fenced()
            return
        is_markers = producer.target_link.expects_marker
        try:
            if producer.broker.receipts_name_source and not is_markers:
                origin = Position(receipt.sequence_id, receipt.highest_sequence_id)
                number, position = producer.target_link.receipt_at(origin)
            else:
                number, position = producer.target_link.receipt(receipt.sequence_id)
        except MagnetarError as error:
            self._refuse(producer, str(error), close=True)
            return
        self._confirm(number, position)
        if producer.link is not None:
            if not is_markers:  # no consumer is sent a marker, so the bookmark would not find it again
                producer.link.receipt(position_of(receipt.message_id))
            self._settle(producer)

    def _settle(self, producer: Producer) -> None:
        for number, position in producer.target_link.settled():
            self._confirm(number, position)

    def _confirm(self, number: int, position: Position) -> None:
        if not self._confirmed:
            self._loop.call_soon(self._report_receipts)
        self._confirmed[number] = position

    def _report_receipts(self) -> None:
        confirmed, self._confirmed = self._confirmed, {}
        self._report(Receipts(tuple(confirmed.items())))

    def _send_error(self, producer: Producer, error: pb.CommandSendError) -> None:
        if error.link_refusal == pb.LinkGap:
            self._gap(producer, error.message)
        else:
            self._refuse(producer, f"{producer.target_link.next_awaited}{error.message}", close=True)

    def _gap(self, producer: Producer, message: str) -> None:
        if producer.target_link.gap(message):
            # The broker refuses everything from this producer on; a new one also tells where to go back to.
            self._drop(producer, close=True)
            self._open(producer.target_link)

    def _refuse(self, producer: Producer, reason: str, *, close: bool = False, told: bool = True) -> None:
        """End a producer; its reader is told, unless it hears of something larger that ends all."""
        self._drop(producer, close=close)
        refused = producer.target_link.refused(reason)
        if refused is not None and told:
            self._report(refused)

    def _drop(self, producer: Producer, *, close: bool) -> None:
        del self._producers[producer.number]
        del self._serving[producer.target_link]
        if producer.link is not None:
            producer.link.close()
        if close and producer.broker is not None:
            producer.broker.close_producer(producer.number)

    def _open(self, target_link: TargetLink) -> None:
        producer = Producer(target_link, next(self._producer_ids))
        self._producers[producer.number] = producer
        self._serving[target_link] = producer
        self._session.lookup(target_link.topic, partial(self._found, producer))

    def _found(self, producer: Producer, broker: BrokerConnection | None, reason: str) -> None:
        """Hear who owns the topic."""
        if producer.number not in self._producers:
            return
        if broker is None:
            self._refuse(producer, reason)
            return
        producer.broker = broker
        name = link_producer(producer.target_link.source, self._name)
        life = "" if broker.is_foreign else producer.target_link.life
        broker.request(
            lambda request_id: commands.producer(
                topic=producer.target_link.topic,
                producer_id=producer.number,
                request_id=request_id,
                producer_name=name,
                epoch=self._lease,
                metadata={LIFE_METADATA: life} if life else None,
            ),
            partial(self._opened, producer),
        )

    def _opened(self, producer: Producer, reply: pb.BaseCommand | None) -> None:
        """Hear whether the producer was granted."""
        if producer.number not in self._producers:
            return
        if reply is None or reply.type != pb.BaseCommand.PRODUCER_SUCCESS:
            reason = "no answer from the target" if reply is None else reply.error.message
            self._refuse(producer, reason, close=reply is None)
            return
        if producer.broker is not None and producer.broker.is_foreign:
            self._find_end(producer)
            return
        success = reply.producer_success
        self._ready(
            producer,
            position_of(success.last_origin_message_id) if success.HasField("last_origin_message_id") else None,
        )

    def _find_end(self, producer: Producer) -> None:
        """Look for what a foreign target holds."""
        assert producer.broker is not None
        link = producer.link = ForeignLink(
            self._loop,
            Route(producer.target_link.source, producer.target_link.topic, self._name),
            producer.broker,
            producer.number,
            lambda: self._ready(producer, link.bookmark.last),
            lambda reason: self._refuse(producer, reason, close=True),
        )
        link.start()

    def _ready(self, producer: Producer, last: Position | None) -> None:
        """Hear that the target holds the source's entries up to ``last``, or none, and send what waits."""
        held, refused = producer.target_link.opened(last)
        if refused is not None:
            self._report(refused)
        for carried in held:
            self.send([carried])
