"""Return of copies: entries that a link's target published in an earlier life and lost, and that this cluster holds.

A holder of the link carries either copies or the own entries of this cluster, never both in one attachment. Otherwise
later entries could hide the loss of the last copies in transit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog
from pyroaring import BitMap

from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.reading.reader import EntryReader
from magnetar.broker.replication.outbound.interfaces import NotifiedTopic, RestingLink
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp_again
from magnetar.wire.links import COPIES_METADATA
from magnetar.wire.message_id import Link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.errors import DamagedEntriesError
    from magnetar.base.life import Life
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.cursor.cursor import Cursor
    from magnetar.geo.origins.extents import HeldExtent

log = structlog.get_logger(__name__)

_LIFE, _LEDGER, _ENTRY = "magnetar.copies.life", "magnetar.copies.ledger", "magnetar.copies.entry"
"""Cursor properties: first ledger id of the target's life, and the newest copy that this life has confirmed."""

_SKIPPED = "magnetar.copies.skipped."
"""Prefix of cursor properties for runs of damaged copies that were not returned to that life.

``<ledger id>:<first entry id>`` follows. The value is the last entry id.
"""


class Lives(Protocol):
    """The known lives of other clusters."""

    def life_of(self, peer: str) -> Life | None:
        """Return the life of ``peer``; None while no progress link to it is up, or if it names none."""
        ...


class CopiedTopic(NotifiedTopic, Protocol):
    """The topic that holds the copies."""

    @property
    def progress(self) -> Lives:
        """The known lives of other clusters."""
        ...


class CopyingLink(RestingLink, Protocol):
    """The link that carries the copies."""

    @property
    def topic(self) -> CopiedTopic:
        """The topic."""
        ...

    @property
    def cursor(self) -> Cursor:
        """The replication cursor."""
        ...

    def flush_soon(self) -> None:
        """Write the cursor."""
        ...


class Copies(Part):
    """The copies of one link's target."""

    OWNS = ("_reader",)

    def __init__(self, replicator: CopyingLink) -> None:
        """Create it; no holder carries copies."""
        self._replicator = replicator
        self._topic = replicator.topic
        self._cursor: Cursor = replicator.cursor
        self._life: Life | None = None
        """Life of the target to which the holder returns copies; None while it carries own entries."""
        self._sent = EARLIEST
        self._skipped = EARLIEST
        """Newest copy that is known to be damaged."""
        self._skipped_for: Life | None = None
        """Life of the target for which ``_skipped`` holds; None before the first holder that may carry copies."""
        self._reader = EntryReader.of(replicator.topic, replicator.dispatch, self._skip)

    @property
    def is_active(self) -> bool:
        """Whether the holder carries copies."""
        return self._life is not None

    def begin(self, consumer: Consumer) -> None:
        """Decide whether a new holder carries copies or own entries."""
        life = self._topic.progress.life_of(self._replicator.target)
        self._life = None
        if life is not None and COPIES_METADATA in consumer.metadata:
            if life != self._skipped_for:
                self._skipped, self._skipped_for = EARLIEST, life
                self._read_again(life)
            self._life = life if self._is_pending(life) else None
        if self._life is not None:
            self._sent = self.returned_through(self._life)
            log.info("copies_returned", topic=str(self._topic.name), target=self._replicator.target, life=str(life))

    def request_return(self) -> None:
        """Disconnect a holder that carries own entries, because there are copies to return now; it attaches again."""
        consumer = self._replicator.consumer
        if self.is_active or not self.are_pending:
            return
        if consumer is None:
            self._replicator.rest.wake()
        elif COPIES_METADATA in consumer.metadata:
            consumer.close()

    @property
    def are_pending(self) -> bool:
        """Whether there are copies to return."""
        life = self._topic.progress.life_of(self._replicator.target)
        return life is not None and self._is_pending(life)

    def end(self) -> None:
        """Handle the end of the holder."""
        self._life = None

    def start_over(self) -> None:
        """Start again with the first copy, because the target lacks confirmed copies."""
        assert self._life is not None
        self._sent = self._skipped = EARLIEST
        self._forget_skipped()
        self._note(self._life, EARLIEST)

    def returned_through(self, life: Life) -> Position:
        """Return the newest copy that this life of the target has confirmed; EARLIEST for none."""
        properties = self._cursor.properties
        if properties.get(_LIFE) != life.first_ledger_id or _LEDGER not in properties:
            return EARLIEST
        return Position(properties[_LEDGER], properties[_ENTRY])

    def skipped(self, life: Life) -> Iterator[tuple[int, BitMap]]:
        """Yield damaged copies that were not returned to this life: a ledger id, and entry ids in it."""
        properties = self._cursor.properties
        if properties.get(_LIFE) == life.first_ledger_id:
            for name in filter(_is_of_skipped, properties):
                ledger_id, _, first = name.removeprefix(_SKIPPED).partition(":")
                yield int(ledger_id), BitMap(range(int(first), properties[name] + 1))

    def dispatch(self, consumer: Consumer) -> None:
        """Send the copies of one read; more follow in the next turn."""
        assert self._life is not None
        extent = self._next(self._life)
        if extent is None:
            return
        for position, entry in self._reader.read(extent.local_first, extent.local_last, consumer.permits) or ():
            self._send(consumer, extent, position, entry)
            self._topic.notify()

    def confirm(self, position: Position) -> None:
        """Note that the target holds the copies up to ``position``; after the last, the holder must attach again."""
        assert self._life is not None
        life, consumer = self._life, self._replicator.consumer
        if self.returned_through(life) < position <= self._sent:
            self._note(life, position)
        if not self._is_pending(life) and consumer is not None:
            consumer.close()

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _send(self, consumer: Consumer, extent: HeldExtent, position: Position, entry: bytes) -> None:
        index, target = self._topic.log.index, self._replicator.target
        offset = position.entry_id - extent.local_first.entry_id
        ledger_id, first = extent.origin_first
        before = Position(ledger_id, first + offset - 1)
        previous = before if offset else extent.previous
        place = None if previous is None else index.local_of(target, previous)
        is_start = previous is not None and (place is None or place == self._skipped)
        origin = Origin(
            target,
            Position(ledger_id, first + offset),
            EARLIEST if previous is None else previous,
            before if offset else extent.floor,
            is_start,
        )
        consumer.permits -= 1
        consumer.messages_sent += 1
        frame = commands.message_on_link(
            consumer_id=consumer.consumer_id, position=position, entry=stamp_again(entry, origin), link=Link()
        )
        consumer.session.write(frame)
        self._sent = position

    def _next(self, life: Life) -> HeldExtent | None:
        """Return the next consecutive copies."""
        durable = self._topic.ledger.last_confirmed_entry
        extents = self._topic.log.index.own_extents(max(self._sent, self._skipped), durable, self._replicator.target)
        extent = next(iter(extents), None)
        return None if extent is None or extent.origin_first.ledger_id >= life.first_ledger_id else extent

    def _is_pending(self, life: Life) -> bool:
        index, target = self._topic.log.index, self._replicator.target
        newest = index.newest_through(target, Position(life.first_ledger_id, -1))
        skipped = self._skipped if life == self._skipped_for else EARLIEST
        return newest is not None and max(self.returned_through(life), skipped) < newest

    def _read_again(self, life: Life) -> None:
        """Go back to the first copy that an earlier run found damaged: an operator may have restored it since.

        The target ignores copies that it has.
        """
        found = [Position(ledger_id, entries[0]) for ledger_id, entries in self.skipped(life)]
        if found:
            first = min(found)
            self._forget_skipped()
            self._note(life, min(self.returned_through(life), Position(first.ledger_id, first.entry_id - 1)))

    def _skip(self, error: DamagedEntriesError) -> None:
        """Skip damaged copies, which this cluster cannot return."""
        self._topic.log.note_damage(error)
        if self._life is None:
            return
        extent = self._next(self._life)
        if extent is not None and extent.local_first == Position(error.ledger_id, error.first):
            self._skipped = Position(error.ledger_id, error.end - 1)
            self._note(self._life, self.returned_through(self._life))
            self._cursor.set_property(f"{_SKIPPED}{error.ledger_id}:{error.first}", error.end - 1)
            self._topic.notify()

    def _forget_skipped(self) -> None:
        for name in tuple(filter(_is_of_skipped, self._cursor.properties)):
            self._cursor.set_property(name, None)

    def _note(self, life: Life, position: Position) -> None:
        if self._cursor.properties.get(_LIFE) != life.first_ledger_id:
            self._forget_skipped()
        self._cursor.set_property(_LIFE, life.first_ledger_id)
        self._cursor.set_property(_LEDGER, position.ledger_id)
        self._cursor.set_property(_ENTRY, position.entry_id)
        self._replicator.flush_soon()


def _is_of_skipped(name: str) -> bool:
    return name.startswith(_SKIPPED)
