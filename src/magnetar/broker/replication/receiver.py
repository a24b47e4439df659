"""The receiving end of a link: each origin position once, in order, without gaps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import structlog

from magnetar.base.errors import DataLossError, LinkGapError, MagnetarError, RequestError, ServerError, without_frames
from magnetar.base.position import EARLIEST
from magnetar.broker.publish.interfaces import PublishedTopic
from magnetar.broker.publish.producer import answer_at, answer_failed
from magnetar.broker.replication.custodians import is_custodian, may_carry
from magnetar.broker.replication.interfaces import TopicWithSubscriptions
from magnetar.broker.replication.lives import check_probe, was_lost
from magnetar.geo.origins.annotation import Annotation, RunExtent
from magnetar.geo.receiving import Verdict, floor_of, gap_error, judge, lacks_entries_before
from magnetar.geo.snapshots.markers import KINDS
from magnetar.wire import commands
from magnetar.wire.entries.entry import check_checksum, parse_metadata, payload_of
from magnetar.wire.entries.markers import PROBE, marker_type
from magnetar.wire.entries.origin import is_stamped, origin_of
from magnetar.wire.links import LinkEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.delayed.index import DelayedIndex
    from magnetar.broker.log.topic_log import Durable
    from magnetar.broker.publish.deduplication import Deduplication
    from magnetar.broker.publish.interfaces import ProducerOptions, ProducerSession, SendHead
    from magnetar.geo.origins.intervals import IntervalSet
    from magnetar.wire.entries.origin import Origin
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

_MIXED = "{source} must not send entries of several clusters in one attachment"


class ReceivingTopic(PublishedTopic, TopicWithSubscriptions, Protocol):
    """The topic that receives entries of another cluster."""

    @property
    def deduplication(self) -> Deduplication:
        """Deduplication of the topic."""
        ...

    @property
    def delayed(self) -> DelayedIndex:
        """The delayed entries."""
        ...

    def append_replicated(self, origin: Annotation, entries: list[bytes], durable: Durable) -> None:
        """Append entries of another cluster; entries that are already acknowledged are never dispatched."""
        ...

    def take_marker(self, source: str, place: Position | None, kind: int, payload: bytes) -> None:
        """Handle a marker from another cluster's broker (PIP-33)."""
        ...


class Arrived(NamedTuple):
    """An entry with a valid origin."""

    origin: Origin
    metadata: pb.MessageMetadata
    is_returned: bool = False
    """Whether this cluster published the entry in an earlier life, and the source returns it."""


Offered = tuple["bytes | RequestError", "Arrived | MagnetarError", int]
"""An entry, its origin, and its number of messages."""

_Answer = Callable[["Sequence[SendHead]", list[Verdict], "Position | None", "MagnetarError | None"], None]
"""Answers SENDs: by the verdicts on their entries, the position of the first stored one, and the refusal."""


class ReplicatedProducer:
    """Producer ``pulsar.repl.<source>--><this cluster>`` of the pipeline or of Apache Pulsar's replicator.

    It sends entries of the source; or, in other attachments, entries that this cluster published and lost, or those of
    a cluster that are in the custody of the source (``custodians_of``). SENDs are answered strictly in order. After a
    refusal, every later SEND is refused too: the sender must reconnect and continue after the entries that are here.
    """

    is_link: ClassVar = True

    def __init__(
        self, topic: ReceivingTopic, session: ProducerSession, options: ProducerOptions, source: str, *, now: float
    ) -> None:
        """Create the producer of a link."""
        self.check: Callable[[bytes], pb.MessageMetadata | None] = check_checksum  # ``read`` parses the metadata
        self.topic = topic
        self.session = session
        self.options = options
        self.source = source
        self.connected_at = now
        self.arrivals = topic.producers.arrivals_from(source)
        self.refusal: MagnetarError | None = None
        """The reason why all further SENDs are refused; None without one."""

    @property
    def last_origin_position(self) -> Position | None:
        """Newest position of the source that this topic holds."""
        return self.topic.log.index.last_position(self.source)

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Append the new entries as one run; answer all SENDs, in order, when the run is durable."""
        self.publish_with_refusals(heads, entries)

    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Publish a run with invalid entries: they and all later entries are refused, in order."""
        if self.topic.is_closing:
            return
        taken = self._take(heads, entries)
        if taken < len(entries):
            self._take_others(heads[taken:], entries[taken:])

    def _take(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> int:
        """Handle entries of the source up to the first of another cluster; return their number."""
        # Lazy: each entry is judged while its metadata is in the processor's caches.
        arrivals = takewhile(self._is_of_source, map(self.read, entries))
        return self.take_new(heads, zip(entries, arrivals, _messages(heads), strict=False), self._answer)

    def _is_of_source(self, arrival: Arrived | MagnetarError) -> bool:
        return not isinstance(arrival, Arrived) or arrival.origin.cluster == self.source

    def _take_others(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Handle entries of another cluster than the source."""
        first = self.read(entries[0])
        if isinstance(first, Arrived) and not first.is_returned:
            offered = zip(entries, map(self.read, entries), _messages(heads), strict=True)
            self.take_new(heads, offered, self._answer, first.origin.cluster)
        else:
            self._take_returned(heads, entries)

    def take_new(
        self, heads: Sequence[SendHead], offered: Iterable[Offered], answer: _Answer, origin_cluster: str = ""
    ) -> int:
        """Append new entries, and ``answer`` their SENDs when that is durable; return the number of entries.

        They are those of the source, or of ``origin_cluster`` if they are in the custody of the source.
        """
        cluster = origin_cluster or self.source
        verdicts: list[Verdict] = []
        accepted: list[bytes] = []
        extents: list[RunExtent] = []
        metadata: list[pb.MessageMetadata] = []
        marked: list[tuple[Position | None, int, bytes]] = []
        link_start = False
        deduplication = self.topic.deduplication
        sequence_ids = deduplication.sequence_ids
        last = self.topic.log.index.last_position(cluster)
        for entry, arrival, messages in offered:
            verdict, arrived = self._judge(cluster, last, arrival)
            verdicts.append(verdict)
            if arrived is None or not isinstance(entry, bytes):
                continue
            origin, stamped, _ = arrived
            if verdict is Verdict.SKIP:
                place = None if is_stamped(stamped) else origin.position
                marked.append((place, stamped.marker_type, bytes(payload_of(entry))))
                continue
            if verdict is Verdict.APPEND:
                self.count(messages, len(entry))
                accepted.append(entry)
                if sequence_ids is not None:
                    metadata.append(stamped)
                _extend(extents, origin.position, floor_of(last, origin))
                link_start |= lacks_entries_before(last, origin)
                last = origin.position
        heads = heads[: len(verdicts)]
        refusal, come = self.refusal, deduplication.replicating(metadata, accepted)
        size = sum(map(len, accepted))
        self.session.publishes_started(len(heads), size)

        def durable(first: Position | None, error: StorageError | None) -> None:
            self.session.publishes_finished(len(heads), size)
            deduplication.replicated(sequence_ids, come, len(accepted), durable=error is None)
            if error is not None:
                self.refusal = error
                answer_failed(self, heads, error)
            elif not (marked and self.topic.is_closing):  # unanswered markers are sent again
                answer(heads, verdicts, first, refusal)
                for place, kind, payload in marked:
                    self.topic.take_marker(self.source, place, kind, payload)

        self._append(Annotation(cluster, tuple(extents), link_start), accepted, durable)
        return len(verdicts)

    def _take_returned(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Handle entries that this cluster published in an earlier life.

        Deduplication ignores their sequence ids, which producers may have given to other messages meanwhile.
        """
        verdicts: list[Verdict] = []
        accepted: list[bytes] = []
        extents: list[RunExtent] = []
        seen = self.topic.log.index.seen
        fresh: set[Position] = set()
        for head, entry in zip(heads, entries, strict=True):
            arrival = self.read(entry)
            verdict = self._judge_returned(seen, fresh, arrival)
            verdicts.append(verdict)
            if verdict is Verdict.GAP or not isinstance(entry, bytes) or not isinstance(arrival, Arrived):
                continue
            if verdict is Verdict.APPEND:
                self.count(head[2], len(entry))
                accepted.append(entry)
                fresh.add(arrival.origin.position)
                _extend(extents, arrival.origin.position, arrival.origin.floor)
        refusal, size = self.refusal, sum(map(len, accepted))
        self.session.publishes_started(len(heads), size)

        def durable(first: Position | None, error: StorageError | None) -> None:
            self.session.publishes_finished(len(heads), size)
            if error is not None:
                self.refusal = error
                answer_failed(self, heads, error)
            else:
                self._answer(heads, verdicts, first, refusal)

        self._append(Annotation(self.topic.environment.cluster, tuple(extents), link_start=False), accepted, durable)

    def count(self, messages: int, size: int) -> None:
        """Count accepted ``messages`` with ``size`` bytes in all."""
        self.topic.arrivals.messages_in += messages
        self.arrivals.messages_in += messages
        self.arrivals.bytes_in += size

    def _append(
        self,
        origin: Annotation,
        accepted: list[bytes],
        durable: Callable[[Position | None, StorageError | None], None],
    ) -> None:
        if accepted:
            self.topic.append_replicated(origin, accepted, durable)
        else:
            # The original of a duplicate may not be durable yet: answer after it.
            self.topic.log.behind_appends(lambda error: durable(None, error))

    def read(self, entry: bytes | RequestError) -> Arrived | MagnetarError:
        """Return the origin of an entry, or the error of an invalid one."""
        try:
            if isinstance(entry, RequestError):
                raise entry
            metadata = parse_metadata(entry)
            origin = origin_of(metadata)
        except MagnetarError as error:
            return without_frames(error)
        except ValueError as error:
            return DataLossError(str(error))
        if origin is not None and may_carry(self.topic, self.source, origin.cluster):
            return Arrived(origin, metadata)
        own = self.topic.environment.cluster
        if (
            origin is None
            or origin.cluster != own
            or origin.floor >= origin.position
            or not (was_lost(self.topic, origin.position) or is_custodian(self.topic, self.source, own))
        ):
            return DataLossError(
                f"an entry from {self.source} must name {self.source} and its position there, or a cluster whose "
                "entries the namespace has given in the custody of this source"
            )
        return Arrived(origin, metadata, is_returned=True)

    def _judge(
        self, cluster: str, last: Position | None, arrival: Arrived | MagnetarError
    ) -> tuple[Verdict, Arrived | None]:
        if self.refusal is not None:
            return Verdict.GAP, None
        try:
            if isinstance(arrival, MagnetarError):
                raise arrival
            origin, metadata, _ = arrival
            if origin.cluster != cluster:
                raise DataLossError(_MIXED.format(source=self.source))
            if cluster != self.source:
                check_probe(self.topic, self.source, origin, metadata)
            if metadata.deliver_at_time:
                self.topic.delayed.begin()
            verdict = judge(last, origin, marker=_is_for_brokers(metadata, origin))
            if verdict is Verdict.GAP:
                raise gap_error(last, origin)
        except (MagnetarError, ValueError) as error:
            self._refuse(error)
            return Verdict.GAP, None
        if verdict is Verdict.APPEND and lacks_entries_before(last, origin):
            log.warning(
                "link_starts_in_the_middle",
                topic=str(self.topic.name),
                source=cluster,
                last=str(last or EARLIEST),
                previous=str(origin.previous),
            )
        return verdict, arrival

    def _judge_returned(self, seen: IntervalSet, fresh: set[Position], arrival: Arrived | MagnetarError) -> Verdict:
        """Judge an entry by the set of returned positions; ``fresh`` are those of this run."""
        if self.refusal is not None:
            return Verdict.GAP
        try:
            if isinstance(arrival, MagnetarError):
                raise arrival
            origin, metadata, is_returned = arrival
            if not is_returned:
                raise DataLossError(_MIXED.format(source=self.source))
            if metadata.deliver_at_time:
                self.topic.delayed.begin()
            position = origin.position
            is_here = not was_lost(self.topic, position) and self.topic.log.has_published(position)
            if is_here or position in seen or position in fresh:
                return Verdict.DUPLICATE
            previous = origin.previous
            if not (origin.link_start or previous == EARLIEST or previous in seen or previous in fresh):
                raise gap_error(None, origin)
        except (MagnetarError, ValueError) as error:
            self._refuse(error)
            return Verdict.GAP
        return Verdict.APPEND

    def _refuse(self, error: MagnetarError | ValueError) -> None:
        self.refusal = without_frames(error if isinstance(error, MagnetarError) else DataLossError(str(error)))
        log.warning("replicated_entry_refused", topic=str(self.topic.name), source=self.source, error=str(error))

    def _answer(
        self,
        heads: Sequence[SendHead],
        verdicts: list[Verdict],
        first: Position | None,
        refusal: MagnetarError | None,
    ) -> None:
        for verdict, answered in groupby(zip(heads, verdicts, strict=True), key=itemgetter(1)):
            run = [head for head, _ in answered]
            if verdict is Verdict.APPEND and first is not None:
                self.session.write(commands.send_receipts(producer_id=self.options.producer_id, heads=run, first=first))
                first = first._replace(entry_id=first.entry_id + len(run))
            elif verdict in (Verdict.DUPLICATE, Verdict.SKIP):
                answer_at(self, run, EARLIEST)
            else:
                for head in run:
                    self.answer_refused(head, refusal)

    def answer_refused(self, head: SendHead, refusal: MagnetarError | None) -> None:
        """Refuse a SEND with the reason."""
        self.session.write(
            commands.send_error(
                producer_id=self.options.producer_id,
                sequence_id=head[0],
                code=ServerError.PersistenceError,
                message=str(refusal),
                is_gap=isinstance(refusal, LinkGapError),
                held=held_of_other(self.source, refusal),
            )
        )


def held_of_other(source: str, refusal: MagnetarError | None) -> LinkEnd | None:
    """Return where the entries of a cluster other than ``source`` end here, if a gap before one of them is refused."""
    if isinstance(refusal, LinkGapError) and refusal.origin != source:
        return LinkEnd(refusal.origin, refusal.last)
    return None


def _messages(heads: Sequence[SendHead]) -> Iterator[int]:
    return (messages for _, _, messages in heads)


def _is_for_brokers(metadata: pb.MessageMetadata, origin: Origin) -> bool:
    """Return whether an entry is a marker of replicated subscriptions, a probe, or internal to Apache Pulsar.

    The pipeline also carries entries of a log: an entry with a stamp can be a marker, too.
    """
    kind = marker_type(metadata)
    if kind is None or not is_stamped(metadata):
        return kind is not None
    return (kind in KINDS or kind == PROBE) and origin.position == origin.previous


def _extend(extents: list[RunExtent], position: Position, floor: Position) -> None:
    """Add an entry to the run: to the last extent if it follows directly in the origin, else to a new one."""
    if extents:
        newest = extents[-1]
        ledger_id, entry_id = newest.origin_first
        last = entry_id + newest.count - 1
        if position == (ledger_id, last + 1) and floor == (ledger_id, last):
            extents[-1] = RunExtent(newest.origin_first, newest.count + 1, newest.floor)
            return
    extents.append(RunExtent(position, 1, floor))
