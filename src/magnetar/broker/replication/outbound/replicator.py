"""The sending end of a link: the replication cursor, and the entries for the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS, Limit
from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.base.rates import Rates
from magnetar.broker.dispatch.throttle import throttled
from magnetar.broker.replication.outbound.copies import CopiedTopic
from magnetar.broker.replication.outbound.foreign_entries import ForeignEntries
from magnetar.broker.replication.outbound.lag import LinkLag
from magnetar.broker.replication.outbound.marker_queue import MarkerQueue
from magnetar.broker.replication.outbound.own_entries import OwnEntries, SentTopic
from magnetar.broker.replication.outbound.parking import Parking, parked_after
from magnetar.broker.replication.outbound.rest import LinkRest
from magnetar.broker.replication.outbound.target_position import TargetPosition
from magnetar.broker.resources.token_bucket import followed
from magnetar.geo.leases import Lease, check_takeover
from magnetar.wire.links import PIPELINE_METADATA
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions
    from magnetar.broker.dispatch.throttle import Throttle
    from magnetar.broker.environment import Environment
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.broker.publish.lag_limit import LagLimit
    from magnetar.broker.replication.outbound.marker_queue import QueuedMarker
    from magnetar.broker.resources.token_bucket import RateLimit
    from magnetar.cursor.cursor import Cursor
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

_NO_LEASE = -1

DOUBT_KEEP_ALIVES = 3
"""Keep-alive intervals within which a sent marker may be lost. Keep-alive detects a silent peer after at most two and
a half intervals: a pipeline whose machine is lost, or a target, which a pipeline mostly gives up earlier."""

CURSOR_FLUSH_INTERVAL_S = 0.1
"""Seconds between two writes of a replication cursor. After a crash, these entries are repeated and dropped."""


class LinkedSnapshots(Protocol):
    """The snapshots of PIP-33 of a topic."""

    def handed_over(self, peer: str) -> None:
        """Handle a new holder of the link to ``peer``."""
        ...

    def went_back(self) -> None:
        """Handle that a link repeats entries that its target had confirmed and lost."""
        ...


class ReplicatedTopic(CopiedTopic, SentTopic, Protocol):
    """The topic of the link."""

    @property
    def lag_limit(self) -> LagLimit:
        """Gate of receipts, which confirmations of links release."""
        ...

    @property
    def snapshots(self) -> LinkedSnapshots | None:
        """The snapshots of the topic; None while no other cluster needs them."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are being removed."""
        ...


class Replicator(Part):
    """The outgoing link of one topic to one target cluster.

    The pipeline task that attached last holds the link; a lower lease than the holder's is refused. Only entries that
    were produced here for the target are sent, each with the position of the previous one on the link. Permits count
    entries. Used on the event loop's thread.

    Each new holder, and each one that goes back, first carries a *probe*: an entry without content, in the place of the
    newest entry that the target has confirmed. A target that holds this entry drops the probe as a duplicate. A target
    that lost it refuses the probe because of the gap, and the link goes back. So a target that lost its data is filled
    without new traffic.

    A link without anything to carry may *rest*: it has no holder, and counts as carried.
    """

    OWNS = ("own", "foreign")

    def __init__(self, topic: ReplicatedTopic, target: str, cursor: Cursor) -> None:
        """Create a link without a holder."""
        self.topic = topic
        self.target = target
        self.cursor = cursor
        self.environment: Environment = topic.environment
        self.target_position = TargetPosition(cursor, self.environment.clock)
        self.lag = LinkLag(topic, cursor, self.target_position)
        self.consumer: Consumer | None = None
        self.handovers = 0
        """Number of hand-overs of the link."""
        self._lease = _NO_LEASE
        self.parking = Parking()
        self._probe: Position | None = None
        """Place of the probe that was not sent to the holder yet."""
        self.markers: MarkerQueue | None = None
        """Markers of PIP-33; None before the first one."""
        self._flush_scheduled = False
        self._rate_limit: RateLimit | None = None
        self.throttle: Throttle | None = None
        """Limits of the own entries that are sent; None without limits."""
        self.rates_out = Rates(2)
        """Rates of entries and bytes."""
        self.own = OwnEntries(self)
        self.foreign = ForeignEntries(self)
        self.rest = LinkRest(self)

    def apply_rates(self) -> None:
        """Apply the limit of the rate of links."""
        now = self.environment.clock.monotonic()
        self._rate_limit = followed(self._rate_limit, self.topic.rates.of_link, now)
        self.throttle = throttled(self.throttle, (self._rate_limit,), self.environment, self.topic.notify)

    @property
    def pipeline(self) -> str | None:
        """Identity of the pipeline that carries the link; None without one, or if the holder names none."""
        if self.rest.is_left:
            return self.rest.pipeline
        return None if self.consumer is None else self.consumer.metadata.get(PIPELINE_METADATA)

    @property
    def is_carried(self) -> bool:
        """Whether a pipeline carries what is published: the link has a holder, or gets one when it is needed."""
        return self.consumer is not None or self.rest.is_left

    @property
    def backlog(self) -> int | None:
        """Number of own entries, and of entries in custody, that the target lacks; None: unknown."""
        own, foreign = self.lag.backlog, self.foreign.backlog
        return None if own is None or foreign is None else own + foreign

    @property
    def sent(self) -> tuple[int, int]:
        """Numbers of sent entries and of their bytes, without copies and markers."""
        own, custody = self.own, self.foreign.custody
        return own.entries_out + custody.entries_out, own.bytes_out + custody.bytes_out

    @property
    def is_probing(self) -> bool:
        """Whether the target has not answered the holder yet."""
        return self._probe is not None or not self.target_position.is_known

    # -- holders ------------------------------------------------------------------------------------------------

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Accept any type, since there is one holder."""

    def check_takeover(self, consumer: Consumer) -> None:
        """Raise LinkHeldError if the holder keeps the link, RequestError for malformed metadata of the new task."""
        parked_after(consumer.metadata)
        newcomer = Lease.of(consumer.metadata)
        if self.consumer is not None:
            check_takeover(self.target, newcomer, Lease(self._lease, self.pipeline))

    def add_consumer(self, consumer: Consumer) -> None:
        """Give the link to a new holder, and disconnect the previous one.

        The position of the target stays known if one holder follows another directly.
        """
        before, self.consumer = self.consumer, consumer
        if before is not None:
            before.close()
        if self.rest.held():
            self._markers_lost()
            if self.topic.snapshots is not None:
                self.topic.snapshots.handed_over(self.target)
        lease = Lease.of(consumer.metadata).number
        handovers = int(self._lease not in (_NO_LEASE, lease))
        self.handovers += handovers
        self.environment.totals.add_handovers(self.topic.name.namespace_name, self.target, handovers)
        self._lease = lease
        self.lag.carried()
        self.own.start_over()
        if self.parking.take_over(consumer.metadata):
            log.warning("link_parked", topic=str(self.topic.name), target=self.target, reason=self.parking.reason)
        self._probe_at(self.target_position.to_verify(self.own.floor))
        self.foreign.begin(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove the holder; entries in flight are sent again to the next one."""
        if consumer is self.consumer:
            self.consumer = None
            self.foreign.end()
            self._probe = None
            self.target_position.lose()
            self.lag.left()
            self.own.forget_in_flight()
            self._markers_lost()
            self.flush_soon()
            self.rest.request_holder()

    def let_rest(self) -> None:
        """Remove the holder of the link, which rests from now on."""
        consumer, self.consumer, self._lease = self.consumer, None, _NO_LEASE
        if consumer is not None:
            consumer.session.close_consumer(consumer, rests=True)

    def send_again_after(self, position: Position, origin: str = "") -> None:
        """Continue right after ``position``, the last one that the target has, with the next dispatch.

        It is one of ``origin`` if its entries are in custody here.

        Dispatch must follow the answer to the holder, which ignores entries that arrive before the answer. Trimmed
        entries cannot be sent again; the next entry then declares a link start.

        The position may belong to an earlier topic with the same name, which was deleted here. The next entry then does
        not name it as the previous position, so that no cluster claims entries between the two.

        The target may have lost the entry since it named it, so a probe precedes the entries.
        """
        if self.foreign.send_again_after(origin, position):
            return
        log_start = self.topic.log.before_first()
        first = max(log_start, self.cursor.began) if position == EARLIEST else log_start
        start = max(first, position)
        if start < self.cursor.state.mark_delete_position:
            log.warning("link_rewound", topic=str(self.topic.name), target=self.target, to=str(position))
            self.cursor.reset(start)
            if self.topic.snapshots is not None:
                self.topic.snapshots.went_back()
        elif position <= self.topic.ledger.last_confirmed_entry:
            self.cursor.acknowledge_cumulative(position)
        self.own.start_over(start)
        self.target_position.go_back(position, self.own.unfillable_behind(position))
        self.flush_soon()
        self._probe_at(position)
        self._advanced()

    # -- confirmations ------------------------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """Note that the target holds all entries up to the last of these positions."""
        if consumer is self.consumer and ack.message_id:
            self._acknowledged(max(map(position_of, ack.message_id)))
        done(None)

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Note that the target holds all entries up to the last of these, like ``acknowledge``."""
        if consumer is self.consumer:
            self._acknowledged(Position(ledger_id, max(entry_ids)))

    def _acknowledged(self, position: Position) -> None:
        if not self.foreign.confirm(position):
            answered = self.own.answered(position)
            if self.markers is not None:
                self.markers.confirmed(answered)
            self._answered()
            self.confirm(position)

    def confirm(self, position: Position) -> None:
        """Note that the target lacks no own entry up to ``position``."""
        held = self.own.take_confirmed(position)
        if held is not None:
            self.target_position.advance(held)
        self.cursor.acknowledge_cumulative(self.own.confirmed_through)
        if self.parking.reason is not None and self.parking.confirmed(held, is_all=not self.lag.unconfirmed):
            log.info("link_resumed", topic=str(self.topic.name), target=self.target)
        self.flush_soon()
        self._advanced()

    def _probe_at(self, position: Position) -> None:
        """Verify that the target holds the entry at ``position``; EARLIEST: none was confirmed, so none can be lost."""
        self._probe = position if position > EARLIEST else None
        if self._probe is None:
            self._answered()

    def _answered(self) -> None:
        """Note that the target has answered the holder."""
        if self.target_position.confirm():
            self.topic.lag_limit.confirmed()

    def _advanced(self) -> None:
        self.lag.advanced()
        self.topic.lag_limit.confirmed()

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
        """Send the own entries of one read to the holder, if it has permits; more follow in the next turn.

        Other work runs in between, and a full socket is detected.
        """
        self.lag.await_newest()
        consumer = self.consumer
        if consumer is None:
            self.rest.dispatch()
            return
        if not consumer.is_ready:
            return
        if self.foreign.dispatch(consumer):
            return
        if self._probe is not None:
            self.own.send_probe(consumer, self._probe)
            self._probe = None
            if not consumer.is_ready:
                return
        self.own.dispatch(consumer)
        if self.markers is not None:
            self._dispatch_markers(consumer, self.markers)

    def send_marker(self, marker: QueuedMarker) -> None:
        """Send a marker after all present entries of the log; without a holder, requests are dropped.

        The marker may be lost with the holder, and is never sent twice to the same holder.
        """
        self.rest.wake()
        if not self.is_carried and not marker.outlives_holder:
            return
        if self.markers is None:
            self.markers = MarkerQueue(self.doubt_s)
        put = self.markers.put if self.is_carried else self.markers.put_for_next
        if not put(marker):
            self.environment.limit_hits.hit(Limit.WAITING_MARKERS)
        if self.consumer is not None:
            self.topic.notify()

    @property
    def doubt_s(self) -> float:
        """Seconds after which a sent marker has arrived, if the holder was not lost meanwhile."""
        config = self.environment.config
        keep_alive_s = max(config.keepAliveIntervalSeconds, KEEP_ALIVE_INTERVAL_SECONDS)  # here, and of pipelines
        return max(config.replicatedSubscriptionsSnapshotTimeoutSeconds, DOUBT_KEEP_ALIVES * keep_alive_s)

    def _dispatch_markers(self, consumer: Consumer, markers: MarkerQueue) -> None:
        """Send the markers that are due, each as an entry in the place of the previous entry.

        The confirmation of a marker therefore confirms nothing new, and the receiver detects a gap before it as usual.
        """
        sent_through = self.own.sent_through
        while consumer.is_ready and (marker := markers.take(sent_through, self.environment.clock.monotonic())):
            consumer.permits -= 1
            self.own.write(consumer, self.own.previous, marker.entry, self.own.previous)
            markers.delivered(marker, self.own.sent_in(self.own.previous))

    def _markers_lost(self) -> None:
        if self.markers is not None:
            self.markers.lost(self.environment.clock.monotonic())

    def close(self) -> None:
        """Stop reading and disconnect the holder, which attaches again."""
        self.rest.close()
        if self.consumer is not None:
            self.consumer.close()
        if self.throttle is not None:
            self.throttle.close()
        self.own.close()
        self.foreign.close()
        self._flush()
        self.cursor.close()
