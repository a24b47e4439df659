"""The writer's state of its target cluster: one producer per topic and source, opened for its first entry."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.position import Position
from magnetar.base.tasks import start_task
from magnetar.geo.receiving import Verdict
from magnetar.pipeline.connections.cluster import ClusterSession
from magnetar.pipeline.connections.reports import Receipts, Report, TargetDown
from magnetar.pipeline.writing.foreign_link import ForeignLink, Route
from magnetar.pipeline.writing.frames import check_size, needs_properties, send_frame, source_version, takes_run
from magnetar.pipeline.writing.losses import TargetLosses
from magnetar.pipeline.writing.schemas import NO_VERSION, SchemaVersions
from magnetar.pipeline.writing.target_link import Action, TargetLink
from magnetar.wire.entries.markers import is_probe
from magnetar.wire.links import LIFE_METADATA, LinkEnd, gap_text, link_producer
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from magnetar.client.connection import PulsarConnection
    from magnetar.pipeline.rows import Carried, Opening


class Producer:
    """A producer at one broker, its link, and its events."""

    __slots__ = (
        *("_target", "as_properties", "broker", "link", "number"),
        *("refusal", "schema_task", "target_link", "task", "waiting"),
    )

    def __init__(self, target: Target, target_link: TargetLink, number: int) -> None:
        """Create a producer for ``target_link`` with the id ``number``; the broker is found by lookup."""
        self._target = target
        self.target_link = target_link
        self.number = number
        self.broker: PulsarConnection | None = None
        self.as_properties = False
        """Whether the broker, of an earlier release, reads the place of an entry from properties."""
        self.link: ForeignLink | None = None
        """The bookmark of a foreign target; None for Magnetar."""
        self.task: asyncio.Task[None] | None = None
        """The task that opens the producer."""
        self.waiting: deque[Carried] = deque()
        """Entries from the first on whose schema is not registered at the target yet."""
        self.schema_task: asyncio.Task[None] | None = None
        """The task that registers it."""
        self.refusal = ""
        """Reason why the next entry is refused as soon as all entries before it have a receipt; empty without one."""

    def stop(self) -> None:
        """Stop opening the producer and registering schemas; the waiting entries are dropped."""
        for task in (self.task, self.schema_task):
            if task is not None:
                task.cancel()
        self.waiting.clear()
        self.refusal = ""

    def receipted(self, receipt: pb.CommandSendReceipt) -> None:
        """See ProducerEvents."""
        self._target.receipt(self, receipt)

    def refused(self, error: pb.CommandSendError) -> None:
        """See ProducerEvents."""
        self._target.send_error(self, error)

    def ended(self, failure: Exception) -> None:
        """See ProducerEvents."""
        self._target.refuse(self, str(failure))


class Target:
    """All producers of one writer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        opening: Opening,
        report: Callable[[Report], None],
        rng: Random,
    ) -> None:
        """Write to the target of ``opening``; `start` connects."""
        self._loop = loop
        self._name = opening.target
        self._lease = opening.lease
        self._report = report
        self._session = ClusterSession(
            loop, opening.target_url, self, rng, opening.client_confs.get(opening.target, "")
        )
        self._losses = TargetLosses(loop, self._session.client, report)
        self._versions = SchemaVersions(opening, self._session.client)
        self._producer_ids = itertools.count(1)
        self._target_links: dict[tuple[str, str], TargetLink] = {}
        self._serving: dict[TargetLink, Producer] = {}
        self._producers: dict[int, Producer] = {}
        self._confirmed: dict[int, tuple[Position, int]] = {}
        """By attachment, the newest position that was confirmed since the last report, and how often."""

    @property
    def outstanding(self) -> int:
        """Return the number of entries that wait for a receipt or for their producer."""
        waiting = sum(len(producer.waiting) for producer in self._producers.values())
        return waiting + sum(target_link.outstanding for target_link in self._target_links.values())

    def start(self) -> None:
        """Connect, and reconnect after each loss."""
        self._session.start()

    def close(self) -> None:
        """Close all connections."""
        self._losses.close()
        for producer in self._producers.values():
            producer.stop()
        self._versions.close()
        self._session.close()

    def send(self, entries: list[Carried]) -> None:
        """Send entries in order; open producers as needed.

        Entries are dropped while the target is not connected, with all later ones of their attachments.
        """
        for carried in entries:
            key = carried.attachment.source, carried.attachment.topic
            target_link = self._target_links.get(key)
            if target_link is None:
                target_link = self._target_links[key] = TargetLink(*key)
            if not self._session.is_up:
                target_link.missed(carried)
                continue
            if target_link.is_of_earlier_life(carried):
                self.refuse(self._serving[target_link], "the source lost its data and came back")
            match target_link.offer(carried):
                case Action.SEND:
                    self._pass_on(self._serving[target_link], carried)
                case Action.OPEN:
                    self._open(target_link)
                case _:
                    pass

    def cluster_up(self) -> None:
        """Report to the reader, as soon as the target reports its losses if it can."""
        self._losses.connected()

    def cluster_down(self, reason: str) -> None:
        """Drop all entries in flight and report to the reader, which detaches all its links."""
        for producer in list(self._producers.values()):
            self.refuse(producer, reason, told=False)
        self._report(TargetDown(reason))

    def _pass_on(self, producer: Producer, carried: Carried) -> None:
        """Send an entry, or let it wait until its schema is registered at the target; later entries wait behind it.

        Entries behind a refused one are dropped. The reader attaches again after the refusal.
        """
        if producer.refusal:
            return
        assert producer.broker is not None
        if carried.sizes and not takes_run(producer.broker, carried):
            for single in carried.singles():
                if self._producers.get(producer.number) is producer:  # otherwise an entry before it was refused
                    self._pass_on(producer, single)
            return
        if producer.waiting or self._version(carried) is None:
            producer.waiting.append(carried)
            if producer.schema_task is None:
                name = f"schemas of {producer.target_link.topic}"
                producer.schema_task = start_task(self._loop, self._register(producer), name)
        elif self._is_due(producer, carried):
            self._send(producer, carried)

    def _version(self, carried: Carried) -> bytes | None:
        """Return the schema version of an entry at the target, None if it is not known yet."""
        try:
            version = source_version(carried)
        except MagnetarError:
            return NO_VERSION  # the entry is refused when it is sent
        return self._versions.known(carried.attachment, version)

    async def _register(self, producer: Producer) -> None:
        """Register the schemas of the waiting entries, and send these; cancelled if the producer is dropped."""
        waiting = producer.waiting
        while waiting:
            carried = waiting[0]
            if self._version(carried) is None:
                try:
                    await self._versions.find(carried.attachment, source_version(carried))
                except (MagnetarError, OSError) as error:
                    self._refuse_next(producer, f"schema of entry {carried.position}: {error}")
                    return
            waiting.popleft()
            if self._is_due(producer, carried):
                self._send(producer, carried)
            if producer.refusal or self._producers.get(producer.number) is not producer:
                return
        producer.schema_task = None

    def _is_due(self, producer: Producer, carried: Carried) -> bool:
        """Return whether to send an entry.

        A foreign target reports neither duplicates nor gaps, so they are checked here.
        """
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
            producer.target_link.held(carried)  # the bookmark shows that the entry is there
            self._settle(producer)
            return False
        return verdict in {Verdict.APPEND, Verdict.SKIP}

    def _send(self, producer: Producer, carried: Carried) -> None:
        assert producer.broker is not None
        sequence_id, version = producer.target_link.next_sequence_id, self._version(carried) or NO_VERSION
        try:
            frame = send_frame(carried, producer.number, sequence_id, version, as_properties=producer.as_properties)
            check_size(frame, self._name, producer.broker.frame_size_max)
        except MagnetarError as error:
            # Skipping the entry would lose it: the link stops until the source's log is repaired.
            self._refuse_next(producer, f"entry {carried.position}: {error}")
            return
        producer.target_link.sent(carried)
        producer.broker.write(frame)

    def receipt(self, producer: Producer, receipt: pb.CommandSendReceipt) -> None:
        """Handle a receipt."""
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
            self.refuse(producer, str(error))
            return
        self._confirm(number, position)
        if producer.link is not None and not is_markers:  # the bookmark would not find a marker, which no consumer gets
            producer.link.receipt(position_of(receipt.message_id))
        self._settle(producer)

    def _settle(self, producer: Producer) -> None:
        for number, position in producer.target_link.settled():
            self._confirm(number, position)
        self._refuse_if_due(producer)

    def _confirm(self, number: int, position: Position) -> None:
        if not self._confirmed:
            self._loop.call_soon(self._report_receipts)
        newest, times = self._confirmed.get(number, (position, 0))
        self._confirmed[number] = position, times + 1 if newest == position else 1

    def _report_receipts(self) -> None:
        confirmed, self._confirmed = self._confirmed, {}
        if confirmed:
            each = ((number, position) for number, (position, times) in confirmed.items() for _ in range(times))
            self._report(Receipts(tuple(each)))

    def send_error(self, producer: Producer, error: pb.CommandSendError) -> None:
        """Handle SEND_ERROR."""
        if error.HasField("link_refusal") and error.link_refusal == pb.LinkGap:
            end = LinkEnd(error.origin_cluster, position_of(error.last_origin_message_id))
            self._gap(producer, error.message, end if end.origin else None)
        else:
            self.refuse(producer, f"{producer.target_link.next_awaited}{error.message}")

    def _gap(self, producer: Producer, message: str, end: LinkEnd | None = None) -> None:
        if producer.target_link.gap(message, end):
            # The broker refuses all later entries of this producer; a new one also returns the position to go back to.
            self._drop(producer)
            self._open(producer.target_link)

    def _refuse_next(self, producer: Producer, reason: str) -> None:
        """Refuse the next entry after all entries before it have a receipt.

        Otherwise the source would repeat these entries, and take their confirmation for progress of the parked link.
        """
        producer.refusal = reason
        producer.waiting.clear()
        self._refuse_if_due(producer)

    def _refuse_if_due(self, producer: Producer) -> None:
        if producer.refusal and not producer.target_link.outstanding:
            self.refuse(producer, producer.refusal)

    def refuse(self, producer: Producer, reason: str, *, told: bool = True) -> None:
        """End a producer, and report it to the reader after its receipts, unless a report that includes it follows."""
        self._drop(producer)
        refused = producer.target_link.refused(reason)
        if refused is not None and told:
            self._report_receipts()
            self._report(refused)

    def _drop(self, producer: Producer) -> None:
        del self._producers[producer.number]
        del self._serving[producer.target_link]
        producer.stop()
        if producer.link is not None:
            producer.link.close()
        if producer.broker is not None:
            producer.broker.drop_producer(producer.number)

    def _open(self, target_link: TargetLink) -> None:
        producer = Producer(self, target_link, next(self._producer_ids))
        self._producers[producer.number] = producer
        self._serving[target_link] = producer
        producer.task = start_task(self._loop, self._admit(producer), f"producer of {target_link.topic}")

    async def _admit(self, producer: Producer) -> None:
        """Look up the topic's broker and create the producer there; cancelled if the producer is dropped before."""
        topic = producer.target_link.topic
        try:
            broker = producer.broker = await self._session.client.owner(topic)
            producer.as_properties = needs_properties(broker)
            life = producer.target_link.life if broker.peer_is_magnetar else ""
            success = await broker.open_producer(
                producer.number,
                producer,
                topic=topic,
                name=link_producer(producer.target_link.source, self._name),
                epoch=self._lease,
                metadata={LIFE_METADATA: life} if life else None,
            )
        except (MagnetarError, OSError) as error:
            if producer.number in self._producers:  # otherwise its end was handled before
                self.refuse(producer, str(error))
            return
        if broker.peer_is_magnetar:
            is_known = success.HasField("last_origin_message_id")
            self._ready(producer, position_of(success.last_origin_message_id) if is_known else None)
        else:
            self._find_end(producer, broker)

    def _find_end(self, producer: Producer, broker: PulsarConnection) -> None:
        """Start the search for the newest entry at a foreign target."""
        link = producer.link = ForeignLink(
            self._loop,
            Route(producer.target_link.source, producer.target_link.topic, self._name),
            broker,
            producer.number,
            lambda: self._ready(producer, link.bookmark.last),
            lambda reason: self.refuse(producer, reason),
        )
        link.start()

    def _ready(self, producer: Producer, last: Position | None) -> None:
        """Record that the target holds the source's entries up to ``last``, or none, and send the waiting ones."""
        held, refused = producer.target_link.opened(last)
        if refused is not None:
            self._report(refused)
        for carried in held:
            self.send([carried])
