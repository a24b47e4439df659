"""Custody: a link carries the entries of clusters that have left the namespace, which this cluster keeps (ADR 40).

Each holder first verifies, origin by origin, that the target has the newest entry in custody, by a probe in its place.
A target that lacks entries refuses the probe and names the newest one that it has. The next holder continues there.
Other entries follow when the target has confirmed all of these: otherwise they could hide the loss of the last ones in
transit.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.reading.reader import EntryReader
from magnetar.broker.replication.custodians import custodians_of
from magnetar.broker.replication.lives import known_lives
from magnetar.broker.replication.outbound.frames import InCustody, LinkFrames
from magnetar.broker.replication.outbound.interfaces import NotifiedTopic, RestingLink
from magnetar.wire import commands
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.entries import markers
from magnetar.wire.entries.origin import Origin, stamp_again
from magnetar.wire.entries.unstamped import unstamp
from magnetar.wire.links import CUSTODY_IN_RUNS, CUSTODY_METADATA, LIFE_METADATA, PARKED_METADATA
from magnetar.wire.message_id import Link

if TYPE_CHECKING:
    import asyncio

    from magnetar.base.errors import DamagedEntriesError
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.dispatch.throttle import Throttle
    from magnetar.geo.origins.extents import HeldExtent

log = structlog.get_logger(__name__)


RETRY_S = 10.0
"""Seconds after a refusal of the target in which the holder carries own entries only."""


class KeepersLink(RestingLink, Protocol):
    """The link that carries the entries."""

    @property
    def topic(self) -> NotifiedTopic:
        """The topic."""
        ...

    @property
    def throttle(self) -> Throttle | None:
        """Limits of what is sent; None without limits."""
        ...


class _Phase(Enum):
    OWN = auto()
    """The holder carries the own entries of this cluster."""
    PROBE = auto()
    """The probe of an origin is to be sent."""
    PROBING = auto()
    """It was sent."""
    CARRYING = auto()
    """The target lacks entries of the origin."""


class Custody(Part):
    """The entries in custody on one link."""

    OWNS = ("_reader",)

    def __init__(self, link: KeepersLink) -> None:
        """Create it; no holder carries entries, and the content of the target is unknown."""
        self._link = link
        self._topic = link.topic
        self.entries_out = self.bytes_out = 0
        """Numbers of sent entries, without probes, and of their bytes."""
        self._phase = _Phase.OWN
        self._origin = ""
        """The origin of the phase."""
        self._due: deque[str] = deque()
        """The origins that the holder must verify after it."""
        self._complete: dict[str, Position] = {}
        """By origin, the newest position through which the target lacks no entry; without one, that is unknown."""
        self._place = EARLIEST
        """The local position of the probe."""
        self._read = EARLIEST
        """The local position after which entries are sent next."""
        self._previous = EARLIEST
        """The origin position of the entry before these that the target has, or that it never gets."""
        self._is_start = False
        """Whether it never gets entries before the next one."""
        self._in_flight: deque[tuple[Position, Position]] = deque()
        """Local and origin positions of entries that the target has not confirmed."""
        self._is_able = False
        """Whether the holder can carry entries in custody."""
        self._is_in_runs = False
        """Whether it carries them in runs, without stamps."""
        self._retry: asyncio.TimerHandle | None = None
        self.origins = self._kept()
        """The clusters whose entries are in custody here."""
        self._reader = EntryReader.of(link.topic, link.dispatch, self._skip)

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the holder carries or verifies entries in custody."""
        return self._phase is not _Phase.OWN

    @property
    def are_pending(self) -> bool:
        """Whether the target may lack entries in custody."""
        return any(self._complete.get(origin, EARLIEST) < self._newest(origin) for origin in self.origins)

    @property
    def backlog(self) -> int | None:
        """Number of entries in custody that the target lacks or that are not for it; None: unknown."""
        is_unknown = any(each not in self._complete and self._newest(each) > EARLIEST for each in self.origins)
        return None if is_unknown else self.at_least

    @property
    def at_least(self) -> int:
        """``backlog`` without the unknown origins."""
        return sum(
            self._count_after(origin, complete)
            for origin in self.origins
            if (complete := self._complete.get(origin)) is not None
        )

    def _kept(self) -> tuple[str, ...]:
        cluster = self._link.environment.cluster
        return tuple(sorted(origin for origin, each in custodians_of(self._topic).items() if each == cluster))

    def _newest(self, origin: str) -> Position:
        """Return the newest position of ``origin`` of which this cluster has an entry, EARLIEST without one."""
        index = self._topic.log.index
        last = index.last_position(origin)
        return EARLIEST if last is None or index.newest_through(origin, last) is None else last

    def _count_after(self, origin: str, position: Position) -> int:
        index = self._topic.log.index
        first = index.first_after(origin, position)
        if first is None:
            return 0
        ledger = self._topic.ledger
        return index.count_own(origin, ledger.previous_position(first), ledger.last_confirmed_entry)

    # -- holders ------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Follow a change of policies."""
        self.origins = self._kept()
        self.request_holder()

    def request_holder(self) -> bool:
        """Disconnect a holder that carries own entries if the target may lack entries in custody; return whether."""
        if not self.origins or self.is_active or not self.are_pending:
            return False
        consumer = self._link.consumer
        if consumer is None:
            self._link.rest.wake()
        elif self._is_able:
            consumer.close()
            return True
        return False

    def begin(self, consumer: Consumer, *, is_free: bool) -> None:
        """Begin to verify the target with a new holder, if that ``is_free`` and can carry entries in custody.

        After a refusal of the target, which may not know of the custody yet, the holder carries own entries only at
        first. Then it must attach again.
        """
        self.end()
        can_carry, was_refused = CUSTODY_METADATA in consumer.metadata, PARKED_METADATA in consumer.metadata
        self._is_able = is_free and can_carry and not was_refused
        self._is_in_runs = consumer.metadata.get(CUSTODY_METADATA) == CUSTODY_IN_RUNS
        if is_free and can_carry and was_refused:
            self._retry = self._link.environment.loop.call_later(RETRY_S, self._become_able)
        if self._is_able:
            self._due.extend(origin for origin in self.origins if self._newest(origin) > EARLIEST)
        self._next_origin()

    def _become_able(self) -> None:
        self._is_able = True
        self.request_holder()

    def end(self) -> None:
        """Handle the end of the holder: the content of the target is unknown."""
        self._stop_retry()
        self._phase = _Phase.OWN
        self._due.clear()
        self._in_flight.clear()
        self.lose()

    def lose(self) -> None:
        """Note that the content of the target is unknown."""
        self._complete.clear()

    def send_again_after(self, origin: str, position: Position) -> None:
        """Carry the entries of ``origin`` after ``position``, the newest one that the target has."""
        if origin not in self.origins or self._link.consumer is None:
            return  # the custody has ended meanwhile
        if self.is_active and self._origin != origin:
            self._due.append(self._origin)
        if origin in self._due:
            self._due.remove(origin)
        ledger, first = self._topic.ledger, self._topic.log.index.first_after(origin, position)
        self._origin, self._phase = origin, _Phase.CARRYING
        self._complete[origin] = self._previous = position
        self._read = ledger.last_confirmed_entry if first is None else ledger.previous_position(first)
        self._is_start = False
        self._in_flight.clear()
        log.info(
            "custody_carried",
            topic=str(self._topic.name),
            target=self._link.target,
            origin=origin,
            after=str(position),
        )

    def confirm(self, position: Position) -> None:
        """Note that the target has everything that was sent up to ``position``."""
        if self._phase is _Phase.PROBING and position == self._place:
            self._finish()
            return
        while self._in_flight and self._in_flight[0][0] <= position:
            self._complete[self._origin] = self._in_flight.popleft()[1]
        if self._phase is _Phase.CARRYING and not self._in_flight:
            self._topic.notify()

    def _finish(self) -> None:
        """End the phase: the target lacks no entry of the origin."""
        self._complete[self._origin] = self._newest(self._origin)
        self._next_origin()
        self._topic.notify()

    def _next_origin(self) -> None:
        self._phase = _Phase.PROBE if self._due else _Phase.OWN
        self._origin = self._due.popleft() if self._due else ""

    # -- sending ------------------------------------------------------------------------------------------------

    def dispatch(self, consumer: Consumer) -> None:
        """Send the probe of an origin, or the entries of one read; more follow in the next turn."""
        if self._phase is _Phase.PROBE:
            self._send_probe(consumer)
        elif self._phase is _Phase.CARRYING:
            self._carry(consumer)

    def _send_probe(self, consumer: Consumer) -> None:
        index, newest = self._topic.log.index, self._newest(self._origin)
        place = index.newest_through(self._origin, newest)
        if place is None:  # trimmed meanwhile
            self._finish()
            return
        self._phase, self._place = _Phase.PROBING, place
        life = known_lives(self._topic).get(self._origin)
        properties = {} if life is None else {LIFE_METADATA: str(life)}
        now_ms = int(self._link.environment.clock.now() * 1000)
        probe = markers.build_probe(publish_time_ms=now_ms, properties=properties)
        entry = stamp_again(probe, Origin(self._origin, newest, newest, newest))
        self._count(consumer, entry)
        frame = commands.message_on_link(consumer_id=consumer.consumer_id, position=place, entry=entry, link=Link())
        consumer.session.write(frame)

    def _carry(self, consumer: Consumer) -> None:
        extent = self._next()
        if extent is None:
            if not self._in_flight:
                self._finish()
            return
        limit, throttle = consumer.permits, self._link.throttle
        if throttle is not None:
            limit = min(limit, throttle.room())
        entries = self._reader.read(extent.local_first, extent.local_last, limit) if limit else None
        if entries is None:
            return
        if throttle is not None:
            throttle.sent(len(entries), sum([len(entry) for _, entry in entries]))
        self._skip_trimmed(extent)
        found = InCustody(self._origin, extent)
        frames = LinkFrames(consumer, found)
        for position, entry in entries:
            self._take(consumer, frames, found, position, entry)
        consumer.session.write(frames.take())
        self._topic.notify()

    def _next(self) -> HeldExtent | None:
        """Return the next consecutive durable entries of the origin; None if there are none."""
        durable = self._topic.ledger.last_confirmed_entry
        return next(iter(self._topic.log.index.own_extents(self._read, durable, self._origin)), None)

    def _skip_trimmed(self, extent: HeldExtent) -> None:
        """Note that the target never gets the entries before ``extent`` that were trimmed."""
        trimmed, _ = self._topic.log.index.around(self._origin, self._previous)
        if trimmed is not None and self._previous < trimmed < extent.origin_first:
            self._previous, self._is_start = trimmed, True

    def _take(self, consumer: Consumer, frames: LinkFrames, found: InCustody, position: Position, entry: bytes) -> None:
        """Add the entry at the local ``position`` to ``frames``, unless it is for other clusters only."""
        origin_position = found.at(position)
        self._read = position
        replicate_to = wire_entry.replicate_to(entry)
        if replicate_to and self._link.target not in replicate_to:
            return
        is_first = position == found.extent.local_first
        floor = found.extent.floor if is_first else origin_position._replace(entry_id=origin_position.entry_id - 1)
        origin = Origin(self._origin, origin_position, self._previous, floor, self._is_start)
        self._previous, self._is_start = origin_position, False
        self._in_flight.append((position, origin_position))
        self.entries_out += 1
        self.bytes_out += len(entry)
        self._count(consumer, entry)
        unstamped = unstamp(entry, self._origin, origin_position) if self._is_in_runs else None
        if unstamped is None:
            frames.add_stamped(position, stamp_again(entry, origin))
        else:
            frames.add(position, Link(origin.previous, origin.floor, origin.link_start), unstamped)

    @staticmethod
    def _count(consumer: Consumer, entry: bytes) -> None:
        consumer.permits -= 1
        consumer.messages_sent += 1
        consumer.bytes_sent += len(entry)

    def _skip(self, error: DamagedEntriesError) -> None:
        """Skip damaged entries, which this cluster cannot send."""
        self._topic.log.note_damage(error)
        if self._phase is not _Phase.CARRYING:
            return
        extent = self._next()
        if extent is not None and extent.local_first == Position(error.ledger_id, error.first):
            self._skip_trimmed(extent)
            self._read = Position(error.ledger_id, error.end - 1)
            found = self._topic.log.index.origin_of(self._read)
            if found is not None:
                self._previous, self._is_start = found[1], True
            self._topic.notify()

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def close(self) -> None:
        """Stop reading."""
        self._stop_retry()
        self._reader.close()
