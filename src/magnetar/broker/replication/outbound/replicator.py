"""The sending end of a link: the replication cursor, and what it hands to the pipeline that carries the link."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import LinkHeldError, RequestError, ServerError
from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS, Limit
from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.base.rates import Rates
from magnetar.broker.reading.reader import EntryReader
from magnetar.broker.replication.outbound.copies import CopiedTopic, Copies
from magnetar.broker.replication.outbound.marker_queue import MarkerQueue
from magnetar.broker.replication.outbound.parking import Parking, parked_after
from magnetar.broker.replication.outbound.target_position import TargetPosition
from magnetar.cursor.ranges import Range
from magnetar.wire import commands
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.entries import markers
from magnetar.wire.links import LEASE_METADATA, OLDER_PIPELINE, PIPELINE_METADATA
from magnetar.wire.message_id import Link, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import DamagedEntriesError, StorageError
    from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions
    from magnetar.broker.environment import Environment
    from magnetar.broker.log.skipped_entries import SkippedEntries
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.broker.publish.lag_limit import LagLimit
    from magnetar.broker.replication.outbound.marker_queue import QueuedMarker
    from magnetar.cursor.cursor import Cursor
    from magnetar.geo.origins.extents import HeldExtent
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

_NO_LEASE = -1

DOUBT_KEEP_ALIVES = 3
"""Keep-alive intervals for which a marker that was handed out is in doubt. Keep-alive notices a silent peer after at
most two and a half of them: a pipeline whose machine is lost, or a target, which a pipeline mostly gives up earlier."""

CURSOR_FLUSH_INTERVAL_S = 0.1
"""Seconds between two writes of a replication cursor. A crash sends that much again, and the receiver drops it."""


class LinkedSnapshots(Protocol):
    """The snapshots of PIP-33 that a topic takes."""

    def handed_over(self, peer: str) -> None:
        """Somebody else carries the link to ``peer`` now."""
        ...

    def went_back(self) -> None:
        """A link sends again what its target confirmed and lost."""
        ...


class ReplicatedTopic(CopiedTopic, Protocol):
    """The topic that a link carries to another cluster."""

    @property
    def lag_limit(self) -> LagLimit:
        """What the confirmations of links let go."""
        ...

    @property
    def skipped(self) -> SkippedEntries:
        """Damaged entries that links go past."""
        ...

    @property
    def snapshots(self) -> LinkedSnapshots | None:
        """None while no other cluster needs them."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are still to be removed."""
        ...


class Replicator(Part):
    """One target cluster's link out of one topic.

    The pipeline task that attached last holds the link ("takeover"); a lower lease than the holder's is refused. Only
    entries that were produced here and are meant for the target are sent, each with the position of the one before it
    on this link. Permits count entries. Everything happens on the event loop's thread.

    Each new holder first carries a *probe*: an entry without content, in the place of the newest entry that the target
    has confirmed. A target that holds this place drops the probe as a duplicate. A target that lost it refuses the
    probe as it refuses any gap, and the link goes back. So a target that lost its data is filled without new traffic.
    """

    OWNS = ("_reader", "copies")

    def __init__(self, topic: ReplicatedTopic, target: str, cursor: Cursor) -> None:
        """A link that nobody carries yet."""
        self.topic = topic
        self.target = target
        self.cursor = cursor
        self.environment: Environment = topic.environment
        self.target_position = TargetPosition(cursor, self.environment.clock)
        self.consumer: Consumer | None = None
        self.handovers = 0
        """How often the link changed hands."""
        self.entries_out = 0
        self.bytes_out = 0
        self._lease = _NO_LEASE
        self._in_flight: deque[Position] = deque()
        self._read_position = topic.ledger.next_position(cursor.state.mark_delete_position)
        self._previous = EARLIEST
        """The newest entry before the read position that was meant for the target."""
        self._floor = EARLIEST
        """The newest own entry before the read position, whomever it was meant for, or a later loss boundary."""
        self._reader = EntryReader(
            topic.ledger,
            self.dispatch,
            self._stop_at,
            self.environment.memory,
            max_entries=self.environment.config.dispatcherMaxReadBatchSize,
            max_bytes=self.environment.config.dispatcherMaxReadSizeBytes,
        )
        self.parking = Parking()
        self._probe: Position | None = None
        """The place of the probe that the holder has not been sent yet."""
        self.damaged_at: Position | None = None
        """The damaged entry that the link has stopped at: going on would leave a gap that nobody sees."""
        self.markers: MarkerQueue | None = None
        """What brokers tell each other about subscriptions (PIP-33); None until there is something of that."""
        self._flush_scheduled = False
        self.uncarried_since: float | None = self.environment.clock.now()
        """Since when nobody has held the link; None while somebody does."""
        self.steady_since = self.environment.clock.now()
        """When the target last caught up after it was late, or after nobody carried the link."""
        self._advanced_at = self.environment.clock.monotonic()
        self._awaited: tuple[Position, float] | None = None
        """A position that the target has not confirmed, and a moment, monotonic, at which it had become durable."""
        self.rates_out = Rates()
        self.copies = Copies(self)
        self._start_over()

    @property
    def pipeline(self) -> str | None:
        """The run of the pipeline that holds the link; None while nobody does, or where it does not say."""
        return None if self.consumer is None else self.consumer.metadata.get(PIPELINE_METADATA)

    @property
    def backlog(self) -> int | None:
        """Own entries that the target does not hold; None while that is not known."""
        return self.unconfirmed if self.target_position.is_known else None

    @property
    def unconfirmed(self) -> int:
        """Own entries behind the cursor: the target was not yet sent them, or has not confirmed them."""
        return self.topic.log.index.count_own(
            self.environment.cluster, self.cursor.state.mark_delete_position, self.topic.ledger.last_confirmed_entry
        )

    @property
    def oldest_unconfirmed(self) -> Position | None:
        """The first own entry that the target has not confirmed."""
        for extent in self.topic.log.index.own_extents(
            self.cursor.state.mark_delete_position, self.topic.ledger.last_confirmed_entry, self.environment.cluster
        ):
            return extent.local_first
        return None

    def delay_s(self) -> int | None:
        """Seconds for which the oldest unconfirmed entry has been here, 0 when there is none, None while not known."""
        if not self.target_position.is_known:
            return None
        if self.oldest_unconfirmed is None:
            return 0
        age_s = self.oldest_age_s()
        return None if age_s is None else int(age_s)

    def oldest_age_s(self) -> float | None:
        """Seconds for which the oldest unconfirmed entry has been in this cluster's log.

        None when there is none, and for an entry from before a crash: the time of its append was not recorded.
        """
        position, ledger = self.oldest_unconfirmed, self.topic.ledger
        return ledger.age_of(position) if position is not None and ledger.has_recorded(position) else None

    # -- who carries the link -----------------------------------------------------------------------------------

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Any type will do: there is one holder."""

    def check_takeover(self, consumer: Consumer) -> None:
        """Raise LinkHeldError if the live holder's lease is newer than the newcomer's.

        Also if both leases are the same and the two belong to different pipelines: these would take the link from each
        other without end. The newest lease gets it in any case, so a pipeline that hangs is relieved.
        Malformed metadata raises RequestError, too.
        """
        parked_after(consumer.metadata)
        lease = _lease_of(consumer)
        if self.consumer is None:
            return
        pipeline, newcomer = self.pipeline, consumer.metadata.get(PIPELINE_METADATA)
        if lease <= self._lease and pipeline != newcomer:
            holder = pipeline or OLDER_PIPELINE
            message = f"another pipeline carries this link: {holder}"
            raise LinkHeldError(message, holder)
        if lease < self._lease:
            message = f"link to {self.target} is held by lease {self._lease}, which is newer than {lease}"
            raise LinkHeldError(message, None)

    def add_consumer(self, consumer: Consumer) -> None:
        """Give the link to the newcomer; the holder before it is told so.

        What is known of the target stays known where a holder follows another directly.
        """
        before, self.consumer = self.consumer, consumer
        if before is not None:
            before.close()
        self._markers_lost()
        if self.topic.snapshots is not None:
            self.topic.snapshots.handed_over(self.target)
        lease = _lease_of(consumer)
        self.handovers += self._lease not in (_NO_LEASE, lease)
        self._lease = lease
        now = self.environment.clock.now()
        if self.uncarried_since is not None and now - self.uncarried_since > self._tolerance_s:
            self.steady_since = now
        self.uncarried_since = None
        self._start_over()
        if self.parking.take_over(consumer.metadata):
            log.warning("link_parked", topic=str(self.topic.name), target=self.target, reason=self.parking.reason)
        self._probe = self.target_position.to_verify(self._floor)
        if self._probe == EARLIEST:  # nothing was ever confirmed, so nothing can be lost
            self._probe = None
            self._answered()
        self.copies.begin(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Nobody holds the link; what was in flight is sent again to the next holder."""
        if consumer is self.consumer:
            self.consumer = None
            self.copies.end()
            self._probe = None
            self.target_position.lose()
            self.uncarried_since = self.environment.clock.now()
            self._in_flight.clear()
            self._markers_lost()
            self.flush_soon()

    def send_again_after(self, position: Position) -> None:
        """The target has everything up to ``position`` and no more: go on right after it, with the next dispatch.

        That must not come before the holder was answered: it takes what comes before for what was sent earlier.
        Entries that were already trimmed cannot be sent again; the next one then declares a start in the middle.

        What the target has may be of a topic of this name that was deleted here: it says nothing about this log, so
        the next entry names nothing from there as what came before it, and nobody claims across the two.
        """
        if self.copies.is_active:
            self.copies.start_over()
            return
        log_start = self.topic.log.before_first()
        first = max(log_start, self.cursor.began) if position == EARLIEST else log_start
        start = max(first, position)
        if start < self.cursor.state.mark_delete_position:
            log.warning("link_goes_back", topic=str(self.topic.name), target=self.target, to=str(position))
            self.cursor.reset(start)
            if self.topic.snapshots is not None:
                self.topic.snapshots.went_back()
        elif position <= self.topic.ledger.last_confirmed_entry:
            self.cursor.acknowledge_cumulative(position)
        self._start_over(start)
        self._probe = None
        self.target_position.go_back(position, self._unfillable_behind(position))
        self.flush_soon()
        self._answered()
        self._advanced()

    def _unfillable_behind(self, position: Position) -> Position | None:
        """Return the newest trimmed entry that a target which holds all up to ``position`` lacks; None for none."""
        if self._previous <= position or self._previous <= self.cursor.began:
            return None
        log.error(
            "link_cannot_fill",
            topic=str(self.topic.name),
            target=self.target,
            held=str(position),
            trimmed_through=str(self._previous),
        )
        return self._previous

    # -- confirmations ------------------------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """The target holds everything up to the last of these positions."""
        if consumer is self.consumer and ack.message_id:
            self._acknowledged(max(map(position_of, ack.message_id)))
        done(None)

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """As ``acknowledge``: the target holds everything up to the last of these entries."""
        if consumer is self.consumer:
            self._acknowledged(Position(ledger_id, max(entry_ids)))

    def _acknowledged(self, position: Position) -> None:
        if self.copies.is_active:
            self.copies.confirm(position)
        else:
            self._answered()
            self._confirm(position)

    def _confirm(self, position: Position) -> None:
        held: Position | None = None
        while self._in_flight and self._in_flight[0] <= position:
            held = self._in_flight.popleft()
        if held is not None:
            self.target_position.advance(held)
        if self.parking.reason is not None and self.parking.confirmed(held, is_all=not self.unconfirmed):
            log.info("link_goes_on", topic=str(self.topic.name), target=self.target)
        ledger = self.topic.ledger
        # Between what is confirmed and what is in flight nothing is meant for the target.
        unconfirmed = self._in_flight[0] if self._in_flight else self._read_position
        self.cursor.acknowledge_cumulative(ledger.previous_position(unconfirmed))
        self.flush_soon()
        self._advanced()

    def _answered(self) -> None:
        """The target has told the holder what it holds."""
        if self.target_position.confirm():
            self.topic.lag_limit.confirmed()

    def _advanced(self) -> None:
        """The target has confirmed more."""
        self._advanced_at = self.environment.clock.monotonic()
        if self._awaited is not None and self._awaited[0] <= self.cursor.state.mark_delete_position:
            if self._advanced_at - self._awaited[1] > self._tolerance_s:
                self.steady_since = self.environment.clock.now()
            self._awaited = None
            self._await_newest()
        self.topic.lag_limit.confirmed()

    @property
    def _tolerance_s(self) -> float:
        return self.environment.config.replicatedSubscriptionAtRiskAfterMs / 1000

    @property
    def stalled_since(self) -> float | None:
        """Since when, monotonic, the target has confirmed nothing though there was something to confirm.

        While it is not known what the target holds, that has to be confirmed.
        """
        unknown_from = self.target_position.unknown_from
        if self._awaited is None:
            return unknown_from
        stalled = max(self._advanced_at, self._awaited[1])
        return stalled if unknown_from is None else min(stalled, unknown_from)

    def _await_newest(self) -> None:
        if self._awaited is None and self.unconfirmed:
            self._awaited = self.topic.ledger.last_confirmed_entry, self.environment.clock.monotonic()

    def flush_soon(self) -> None:
        """Write the replication cursor within CURSOR_FLUSH_INTERVAL_S."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.environment.loop.call_later(CURSOR_FLUSH_INTERVAL_S, self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self.cursor.flush(lambda _: None)

    # -- sending ------------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send the holder one read's worth of own entries, if it has permits; more follow in the next turn.

        So others get their turn in between, and the socket can say that it is full.
        """
        self._await_newest()
        consumer = self.consumer
        if consumer is None or not consumer.is_ready:
            return
        if self.copies.is_active:
            self.copies.dispatch(consumer)
            return
        if self._probe is not None:
            self._send_probe(consumer, self._probe)
            if not consumer.is_ready:
                return
        if self.damaged_at is None and self._read_position <= self.topic.ledger.last_confirmed_entry:
            self._dispatch_entries(consumer)
        if self.markers is not None:
            self._dispatch_markers(consumer, self.markers)

    def _send_probe(self, consumer: Consumer, place: Position) -> None:
        """Ask the target whether it holds ``place``; nothing is sent before."""
        self._probe = None
        consumer.permits -= 1
        entry = markers.build_probe(publish_time_ms=int(self.environment.clock.now() * 1000))
        frame = commands.message_on_link(
            consumer_id=consumer.consumer_id, position=place, entry=entry, link=Link(place, place)
        )
        consumer.session.write(frame)

    def _next_own(self) -> HeldExtent | None:
        """The durable own entries that follow, as far as they are consecutive; None when there are none."""
        ledger = self.topic.ledger
        after = ledger.previous_position(self._read_position)
        extents = self.topic.log.index.own_extents(after, ledger.last_confirmed_entry, self.environment.cluster)
        return next(iter(extents), None)

    def _dispatch_entries(self, consumer: Consumer) -> None:
        ledger, extent = self.topic.ledger, self._next_own()
        if extent is None:
            self._skip_to(ledger.next_position(ledger.last_confirmed_entry))
            return
        entries = self._reader.read(extent.local_first, extent.local_last, consumer.permits)
        if entries is None:
            return
        self._floor = max(self._floor, extent.floor)
        for position, entry in entries:
            self._send(consumer, position, entry)
        if self._read_position <= ledger.last_confirmed_entry:
            self.topic.notify()

    def send_marker(self, marker: QueuedMarker) -> None:
        """Send a marker behind all that is in the log; while nobody carries the link requests are dropped.

        It may be lost with the link's holder, and is never sent twice to the same one.
        """
        if self.consumer is None and not marker.outlives_holder:
            return
        if self.markers is None:
            self.markers = MarkerQueue(self._doubt_s)
        put = self.markers.put if self.consumer is not None else self.markers.put_for_next
        if not put(marker):
            self.environment.limit_hits.hit(Limit.WAITING_MARKERS)
        if self.consumer is not None:
            self.topic.notify()

    @property
    def _doubt_s(self) -> float:
        """Seconds after which a marker that was handed out has arrived, if the link was not lost meanwhile."""
        config = self.environment.config
        keep_alive_s = max(config.keepAliveIntervalSeconds, KEEP_ALIVE_INTERVAL_SECONDS)  # here, and of pipelines
        return max(config.replicatedSubscriptionsSnapshotTimeoutSeconds, DOUBT_KEEP_ALIVES * keep_alive_s)

    def _dispatch_markers(self, consumer: Consumer, markers: MarkerQueue) -> None:
        """Send the markers whose turn has come, each as an entry in the place of the one before it.

        So confirming it confirms nothing new, and the receiver finds a gap before it as before any other.
        """
        sent_through = self.topic.ledger.previous_position(self._read_position)
        while consumer.is_ready and (marker := markers.take(sent_through, self.environment.clock.monotonic())):
            consumer.permits -= 1
            self._write(consumer, self._previous, marker.entry, self._previous)

    def _markers_lost(self) -> None:
        if self.markers is not None:
            self.markers.lost(self.environment.clock.monotonic())

    def _stop_at(self, error: DamagedEntriesError) -> None:
        """Wait at damaged entries until they are repaired from a copy, or an operator lets the link go past them."""
        self.topic.log.note_damage(error)
        damaged = Range(Position(error.ledger_id, error.first), Position(error.ledger_id, error.end - 1))
        extent = self._next_own()
        if extent is None or extent.local_first != damaged.first:
            return  # the link was sent elsewhere while the read was under way
        through = self.topic.skipped.through(self.target, damaged)
        if through is None:
            self.damaged_at = damaged.first
        else:
            self._floor = through  # so that no cluster claims what the target never gets
            self._skip_to(self.topic.ledger.next_position(through))

    def skip_damaged(self, through: Position) -> None:
        """Go past the damaged entries from ``damaged_at`` up to and including ``through``; durable on return.

        Raises RequestError unless the link has stopped there and all these entries were found to be damaged.
        """
        first = self.damaged_at
        if first is None:
            message = f"the link to {self.target} has not stopped at a damaged entry"
            raise RequestError(ServerError.NotAllowedError, message)
        last = self.topic.log.damaged.run_end(first)
        if not first <= through <= last:
            message = f"the link to {self.target} has stopped at {first}; damaged are {first} to {last}, not {through}"
            raise RequestError(ServerError.NotAllowedError, message)
        self.topic.skipped.add(self.target, Range(first, through))
        log.warning(
            "damaged_entries_skipped",
            topic=str(self.topic.name),
            target=self.target,
            first=str(first),
            last=str(through),
        )
        self.damaged_at = None
        self.topic.notify()

    def close(self) -> None:
        """Stop reading; the holder is told to come again."""
        if self.consumer is not None:
            self.consumer.close()
        self._reader.close()
        self.copies.close()
        self._flush()
        self.cursor.close()

    def _send(self, consumer: Consumer, position: Position, entry: bytes) -> None:
        self._read_position = self.topic.ledger.next_position(position)
        replicate_to = wire_entry.replicate_to(entry)
        if replicate_to and self.target not in replicate_to:
            self._floor = position
            if not self._in_flight:
                self._confirm(position)
            return
        consumer.permits -= 1
        consumer.messages_sent += 1
        consumer.bytes_sent += len(entry)
        self.entries_out += 1
        self.bytes_out += len(entry)
        self._in_flight.append(position)
        self._write(consumer, position, entry, self._floor)
        self._previous = self._floor = position

    def _write(self, consumer: Consumer, position: Position, entry: bytes, floor: Position) -> None:
        link = Link(self._previous, floor, link_start=self._begins_in_the_middle)
        frame = commands.message_on_link(consumer_id=consumer.consumer_id, position=position, entry=entry, link=link)
        consumer.session.write(frame)

    @property
    def _begins_in_the_middle(self) -> bool:
        """Whether what lies before the next entry was trimmed, or is older than the link and was never meant for it."""
        if self._previous == EARLIEST:
            return False
        return self._previous <= self.cursor.began or not self.topic.ledger.contains(self._previous)

    def _skip_to(self, position: Position) -> None:
        """Nothing before ``position`` is left to send."""
        self._read_position = position
        if not self._in_flight:
            self._confirm(self.topic.ledger.previous_position(position))

    def _start_over(self, after: Position | None = None) -> None:
        """Read again from the first entry after ``after`` (default: the newest confirmed one)."""
        start = self.cursor.state.mark_delete_position if after is None else after
        self._in_flight.clear()
        self.damaged_at = None
        self._read_position = self.topic.ledger.next_position(start)
        self._floor = self.topic.log.index.positions_at(start).get(self.environment.cluster, EARLIEST)
        # Entries between the two were not meant for the target, unless it lost them and they were trimmed meanwhile.
        confirmed = self.target_position.confirmed_before(start)
        self._previous = self._floor if confirmed is None else confirmed


def _lease_of(consumer: Consumer) -> int:
    try:
        return int(consumer.metadata.get(LEASE_METADATA, ""))
    except ValueError:
        message = f"consumer metadata {LEASE_METADATA}={consumer.metadata.get(LEASE_METADATA)!r} is not a number"
        raise RequestError(ServerError.MetadataError, message) from None
