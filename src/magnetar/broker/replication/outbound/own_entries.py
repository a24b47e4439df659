"""Own entries of this cluster on a link: the next ones to send, and the confirmed ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.reading.reader import EntryReader
from magnetar.broker.replication.outbound.frames import LinkFrames
from magnetar.broker.replication.outbound.interfaces import NotifiedTopic, SendingLink
from magnetar.broker.replication.outbound.marker_queue import Delivery
from magnetar.cursor.ranges import Range
from magnetar.wire import commands
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.entries import markers
from magnetar.wire.message_id import Link

if TYPE_CHECKING:
    from magnetar.base.errors import DamagedEntriesError, StorageError
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.dispatch.throttle import Throttle
    from magnetar.broker.log.skipped_entries import SkippedEntries
    from magnetar.broker.replication.outbound.target_position import TargetPosition
    from magnetar.cursor.cursor import Cursor
    from magnetar.geo.origins.extents import HeldExtent
    from magnetar.metadata.store import OnDurable

log = structlog.get_logger(__name__)


class SentTopic(NotifiedTopic, Protocol):
    """The topic of the link."""

    @property
    def skipped(self) -> SkippedEntries:
        """Damaged entries that links skip."""
        ...


class CarryingLink(SendingLink, Protocol):
    """The link that carries the entries."""

    @property
    def topic(self) -> SentTopic:
        """The topic."""
        ...

    @property
    def cursor(self) -> Cursor:
        """The replication cursor."""
        ...

    @property
    def target_position(self) -> TargetPosition:
        """The position of the target."""
        ...

    @property
    def throttle(self) -> Throttle | None:
        """Limits of what is sent; None without limits."""
        ...

    def confirm(self, position: Position) -> None:
        """Note that the target lacks no entry up to ``position``."""
        ...


class OwnEntries(Part):
    """The own entries of one link. Only entries for the target are sent."""

    OWNS = ("_reader",)

    def __init__(self, link: CarryingLink) -> None:
        """Begin after the confirmed entries."""
        self._link = link
        self._topic = link.topic
        self._cursor: Cursor = link.cursor
        self.entries_out = 0
        self.bytes_out = 0
        self._in_flight: deque[Position] = deque()
        self._read_position = EARLIEST
        self.previous = EARLIEST
        """Newest entry for the target before the read position."""
        self.floor = EARLIEST
        """Newest own entry before the read position, for any cluster, or a later loss boundary."""
        self._sent = self._answered = Delivery(0, EARLIEST, 0)
        """Newest probe or marker that was sent, and the newest confirmation."""
        self.damaged_at: Position | None = None
        """Damaged entry at which the link has stopped; continuing would leave an undetected gap."""
        self._reader = EntryReader.of(link.topic, link.dispatch, self._stop_at)
        self.start_over()

    @property
    def sent(self) -> tuple[int, Delivery]:
        """Number of entries that were sent, and the newest probe or marker."""
        return self.entries_out, self._sent

    @property
    def is_answered(self) -> bool:
        """Whether the target has confirmed each probe and marker that the holder was sent."""
        return self._answered >= self._sent

    @property
    def sent_through(self) -> Position:
        """Position up to which all entries for the target were sent."""
        return self._topic.ledger.previous_position(self._read_position)

    # -- confirmations ------------------------------------------------------------------------------------------

    def take_confirmed(self, position: Position) -> Position | None:
        """Confirm the entries in flight up to ``position``; return the newest of them, None if there is none."""
        held: Position | None = None
        while self._in_flight and self._in_flight[0] <= position:
            held = self._in_flight.popleft()
        return held

    @property
    def confirmed_through(self) -> Position:
        """Position up to which the target lacks no entry: none between confirmed and sent ones is for it."""
        unconfirmed = self._in_flight[0] if self._in_flight else self._read_position
        return self._topic.ledger.previous_position(unconfirmed)

    def answered(self, position: Position) -> Delivery:
        """Count a confirmation of ``position``."""
        self._answered = self._answered.next(position)
        return self._answered

    def forget_in_flight(self) -> None:
        """Note that the entries in flight may be lost."""
        self._in_flight.clear()

    def start_over(self, after: Position | None = None) -> None:
        """Read again from the first entry after ``after`` (default: the newest confirmed one)."""
        start = self._cursor.state.mark_delete_position if after is None else after
        self._in_flight.clear()
        self.damaged_at = None
        self._read_position = self._topic.ledger.next_position(start)
        self.floor = self._topic.log.index.positions_at(start).get(self._link.environment.cluster, EARLIEST)
        # Entries between the two were not for the target, unless it lost them and they were trimmed meanwhile.
        confirmed = self._link.target_position.confirmed_before(start)
        self.previous = self.floor if confirmed is None else confirmed
        self._sent = self._answered = Delivery(self._sent.start + 1, self.previous, 0)

    def unfillable_behind(self, position: Position) -> Position | None:
        """Return the newest trimmed entry that a target at ``position`` lacks; None if there is none."""
        if self.previous <= position or self.previous <= self._cursor.began:
            return None
        log.error(
            "link_cannot_fill",
            topic=str(self._topic.name),
            target=self._link.target,
            held=str(position),
            trimmed_through=str(self.previous),
        )
        return self.previous

    # -- sending ------------------------------------------------------------------------------------------------

    def dispatch(self, consumer: Consumer) -> None:
        """Send the entries of one read; more follow in the next turn."""
        ledger = self._topic.ledger
        if self.damaged_at is not None or self._read_position > ledger.last_confirmed_entry:
            return
        extent = self._next()
        if extent is None:
            self._skip_to(ledger.next_position(ledger.last_confirmed_entry))
            return
        limit, throttle = consumer.permits, self._link.throttle
        if throttle is not None:
            limit = min(limit, throttle.room())
        entries = self._reader.read(extent.local_first, extent.local_last, limit) if limit else None
        if entries is None:
            return
        if throttle is not None:
            throttle.sent(len(entries), sum([len(entry) for _, entry in entries]))
        self.floor = max(self.floor, extent.floor)
        oldest, frames = ledger.first_position, LinkFrames(consumer)
        for place, entry in entries:
            link = self._take(consumer, place, entry, oldest)
            if link is not None:
                frames.add(place, link, entry)
        consumer.session.write(frames.take())
        if self._read_position <= ledger.last_confirmed_entry:
            self._topic.notify()

    def _next(self) -> HeldExtent | None:
        """Return the next consecutive durable own entries; None if there are none."""
        ledger = self._topic.ledger
        after = ledger.previous_position(self._read_position)
        extents = self._topic.log.index.own_extents(after, ledger.last_confirmed_entry, self._link.environment.cluster)
        return next(iter(extents), None)

    def _take(self, consumer: Consumer, position: Position, entry: bytes, oldest: Position) -> Link | None:
        """Advance to the entry; return its place on the link, None for an entry that is not for the target."""
        self._read_position = self._topic.ledger.next_position(position)
        replicate_to = wire_entry.replicate_to(entry)
        if replicate_to and self._link.target not in replicate_to:
            self.floor = position
            if not self._in_flight:
                self._link.confirm(position)
            return None
        consumer.permits -= 1
        consumer.messages_sent += 1
        consumer.bytes_sent += len(entry)
        self.entries_out += 1
        self.bytes_out += len(entry)
        self._in_flight.append(position)
        link = Link(self.previous, self.floor, link_start=self._begins_in_the_middle(oldest))
        self.previous = self.floor = position
        return link

    def _begins_in_the_middle(self, oldest: Position) -> bool:
        """Return whether entries before the next one were trimmed, or precede the start of the link.

        ``oldest`` is the oldest entry of the log.
        An entry that was lost with the power, after entries that are left, does not count: a target without it must go
        back to these.
        """
        if self.previous == EARLIEST:
            return False
        return self.previous <= self._cursor.began or self.previous < oldest

    def _skip_to(self, position: Position) -> None:
        """Note that no entry before ``position`` remains to be sent."""
        self._read_position = position
        if not self._in_flight:
            self._link.confirm(self._topic.ledger.previous_position(position))

    def write(self, consumer: Consumer, position: Position, entry: bytes, floor: Position) -> None:
        """Send an entry in the place ``position``, as the successor of the one sent before."""
        link_start = self._begins_in_the_middle(self._topic.ledger.first_position)
        link = Link(self.previous, floor, link_start=link_start)
        frame = commands.message_on_link(consumer_id=consumer.consumer_id, position=position, entry=entry, link=link)
        consumer.session.write(frame)

    def send_probe(self, consumer: Consumer, place: Position) -> None:
        """Send the probe for ``place``, before any entry."""
        consumer.permits -= 1
        entry = markers.build_probe(publish_time_ms=int(self._link.environment.clock.now() * 1000))
        frame = commands.message_on_link(
            consumer_id=consumer.consumer_id, position=place, entry=entry, link=Link(place, place)
        )
        consumer.session.write(frame)
        self.sent_in(place)

    def sent_in(self, place: Position) -> Delivery:
        """Count a probe or a marker in ``place``, after the entry there if that was sent since the start."""
        newest = self._sent if place == self._sent.place else Delivery(self._sent.start, place, 1)
        self._sent = newest.next(place)
        return self._sent

    # -- damaged entries ----------------------------------------------------------------------------------------

    def _stop_at(self, error: DamagedEntriesError) -> None:
        """Stop at damaged entries until they are restored from a copy, or an operator lets the link skip them."""
        self._topic.log.note_damage(error)
        damaged = Range(Position(error.ledger_id, error.first), Position(error.ledger_id, error.end - 1))
        extent = self._next()
        if extent is None or extent.local_first != damaged.first:
            return  # the read position of the link was moved during the read
        through = self._topic.skipped.through(self._link.target, damaged)
        if through is None:
            self.damaged_at = damaged.first
        else:
            self.floor = through  # so that no cluster claims entries that the target never gets
            self._skip_to(self._topic.ledger.next_position(through))

    def skip_damaged(self, through: Position, done: OnDurable) -> None:
        """Skip the damaged entries from ``damaged_at`` up to and including ``through``.

        The link continues, and ``done`` is called, when that is durable. Raises RequestError unless the link has
        stopped there and all these entries are known to be damaged.
        """
        first, target = self.damaged_at, self._link.target
        if first is None:
            message = f"the link to {target} has not stopped at a damaged entry"
            raise RequestError(ServerError.NotAllowedError, message)
        last = self._topic.log.damaged.run_end(first)
        if not first <= through <= last:
            message = f"the link to {target} has stopped at {first}: {first} to {last} are damaged, not {through}"
            raise RequestError(ServerError.NotAllowedError, message)
        topic = str(self._topic.name)

        def stored(error: StorageError | None) -> None:
            if error is None:
                log.warning("damaged_entries_skipped", topic=topic, target=target, first=str(first), last=str(through))
                self.damaged_at = None
                self._topic.notify()
            done(error)

        self._topic.skipped.add(target, Range(first, through), stored)

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()
