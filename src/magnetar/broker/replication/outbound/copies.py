"""Return of copies: entries that a link's target published and lost with its data, and that this cluster holds.

If this cluster is the custodian of the target, these are also entries that the target has deleted with its topic before
it returned (ADR 40). All of them are in ledgers below a *boundary*: the target gives its ledgers higher ids now.

A holder of the link carries either copies or the own entries of this cluster, never both in one attachment. Otherwise
later entries could hide the loss of the last copies in transit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import structlog
from pyroaring import BitMap

from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.reading.reader import EntryReader
from magnetar.broker.replication.custodians import is_custodian
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

_LIFE, _BOUNDARY = "magnetar.copies.life", "magnetar.copies.boundary"
_LEDGER, _ENTRY = "magnetar.copies.ledger", "magnetar.copies.entry"
"""Cursor properties: first ledger id of the target's life, the boundary, and the newest copy that it has confirmed.

Without a boundary, the first ledger id of the life is the boundary.
"""

_KEPT = "magnetar.copies.kept"
"""Cursor property: the boundary of the entries that this cluster kept as the custodian when the target returned."""

_SKIPPED = "magnetar.copies.skipped."
"""Prefix of cursor properties for runs of damaged copies that were not returned.

``<ledger id>:<first entry id>`` follows. The value is the last entry id.
"""


class Copied(NamedTuple):
    """The copies for a target."""

    boundary: int
    """They are in ledgers of the target with lower ids."""
    life: int | None
    """First ledger id of the target's life; None: it names none."""

    @classmethod
    def lost(cls, life: Life) -> Self:
        """Return what the target lost before a life."""
        return cls(life.first_ledger_id, life.first_ledger_id)


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
        self._copied: Copied | None = None
        """The copies that the holder returns; None while it carries own entries."""
        self._sent = EARLIEST
        self._skipped = EARLIEST
        """Newest copy that is known to be damaged."""
        self._skipped_for: Copied | None = None
        """The copies for which ``_skipped`` holds; None before the first holder that may carry some."""
        self._reader = EntryReader.of(replicator.topic, replicator.dispatch, self._skip)
        self.changed()

    def changed(self) -> None:
        """Follow a change of policies: note what this cluster keeps for a target that has returned.

        The link was made when the target returned. What it publishes later is in ledgers with higher ids. If it did not
        delete the topic, it has the noted entries, and ignores them.
        """
        if self._is_custodian and _KEPT not in self._cursor.properties:
            newest = self._topic.log.index.last_position(self._replicator.target)
            self._cursor.set_property(_KEPT, 0 if newest is None else newest.ledger_id + 1)

    @property
    def _is_custodian(self) -> bool:
        return is_custodian(self._topic, self._topic.environment.cluster, self._replicator.target)

    @property
    def is_active(self) -> bool:
        """Whether the holder carries copies."""
        return self._copied is not None

    def begin(self, consumer: Consumer) -> None:
        """Decide whether a new holder carries copies or own entries."""
        copied, self._copied = self._find(), None
        if copied is not None and COPIES_METADATA in consumer.metadata:
            if copied != self._skipped_for:
                self._skipped, self._skipped_for = EARLIEST, copied
                self._read_again(copied)
            self._copied = copied if self._is_pending(copied) else None
        if self._copied is not None:
            self._sent = self.returned_through(self._copied)
            target = self._replicator.target
            log.info("copies_returned", topic=str(self._topic.name), target=target, below=self._copied.boundary)

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
        copied = self._find()
        return copied is not None and self._is_pending(copied)

    @property
    def backlog(self) -> int:
        """Number of entries that this cluster keeps as the custodian, and that the target lacks."""
        copied = self._find() if self._is_custodian else None
        newest = None if copied is None else self._newest(copied)
        if copied is None or newest is None:
            return 0
        return self._topic.log.index.count_own(self._replicator.target, self._done_through(copied), newest)

    def end(self) -> None:
        """Handle the end of the holder."""
        self._copied = None

    def start_over(self) -> None:
        """Start again with the first copy, because the target lacks confirmed copies."""
        assert self._copied is not None
        self._sent = self._skipped = EARLIEST
        self._forget_skipped()
        self._note(self._copied, EARLIEST)

    def returned_through(self, copied: Copied) -> Position:
        """Return the newest one of some copies that the target has confirmed; EARLIEST for none."""
        properties = self._cursor.properties
        if not self._are_noted(copied) or _LEDGER not in properties:
            return EARLIEST
        return Position(properties[_LEDGER], properties[_ENTRY])

    def skipped(self, copied: Copied) -> Iterator[tuple[int, BitMap]]:
        """Yield damaged ones of some copies, which were not returned: a ledger id, and entry ids in it."""
        properties = self._cursor.properties
        if self._are_noted(copied):
            for name in filter(_is_of_skipped, properties):
                ledger_id, _, first = name.removeprefix(_SKIPPED).partition(":")
                yield int(ledger_id), BitMap(range(int(first), properties[name] + 1))

    def _are_noted(self, copied: Copied) -> bool:
        """Return whether the properties are about these copies, and the target has not lost its data since."""
        life = self._cursor.properties.get(_LIFE)
        is_same = life is None or copied.life is None or life == copied.life
        return is_same and self._cursor.properties.get(_BOUNDARY, life or 0) >= copied.boundary

    def dispatch(self, consumer: Consumer) -> None:
        """Send the copies of one read; more follow in the next turn."""
        assert self._copied is not None
        extent = self._next(self._copied)
        if extent is None:
            return
        for position, entry in self._reader.read(extent.local_first, extent.local_last, consumer.permits) or ():
            self._send(consumer, extent, position, entry)
            self._topic.notify()

    def confirm(self, position: Position) -> None:
        """Note that the target holds the copies up to ``position``; after the last, the holder must attach again."""
        assert self._copied is not None
        copied, consumer = self._copied, self._replicator.consumer
        if self.returned_through(copied) < position <= self._sent:
            self._note(copied, position)
        if not self._is_pending(copied) and consumer is not None:
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

    def _find(self) -> Copied | None:
        """Return the copies; None while the target names no life, unless this is its custodian."""
        life = self._topic.progress.life_of(self._replicator.target)
        lost = None if life is None else Copied.lost(life)
        if not self._is_custodian:
            return lost
        kept = self._cursor.properties.get(_KEPT, 0)
        return Copied(kept, None) if lost is None else lost._replace(boundary=max(kept, lost.boundary))

    def _newest(self, copied: Copied) -> Position | None:
        """Return the local position of the newest copy; None if there is none."""
        return self._topic.log.index.newest_through(self._replicator.target, Position(copied.boundary, -1))

    def _next(self, copied: Copied) -> HeldExtent | None:
        """Return the next consecutive copies."""
        durable = self._topic.ledger.last_confirmed_entry
        extents = self._topic.log.index.own_extents(max(self._sent, self._skipped), durable, self._replicator.target)
        extent = next(iter(extents), None)
        return None if extent is None or extent.origin_first.ledger_id >= copied.boundary else extent

    def _is_pending(self, copied: Copied) -> bool:
        newest = self._newest(copied)
        return newest is not None and self._done_through(copied) < newest

    def _done_through(self, copied: Copied) -> Position:
        """Return the newest copy that the target has confirmed, or that is known to be damaged."""
        return max(self.returned_through(copied), self._skipped if copied == self._skipped_for else EARLIEST)

    def _read_again(self, copied: Copied) -> None:
        """Go back to the first copy that an earlier run found damaged: an operator may have restored it since.

        The target ignores copies that it has.
        """
        found = [Position(ledger_id, entries[0]) for ledger_id, entries in self.skipped(copied)]
        if found:
            first = min(found)
            self._forget_skipped()
            before = Position(first.ledger_id, first.entry_id - 1)
            self._note(copied, min(self.returned_through(copied), before))

    def _skip(self, error: DamagedEntriesError) -> None:
        """Skip damaged copies, which this cluster cannot return."""
        self._topic.log.note_damage(error)
        if self._copied is None:
            return
        extent = self._next(self._copied)
        if extent is not None and extent.local_first == Position(error.ledger_id, error.first):
            self._skipped = Position(error.ledger_id, error.end - 1)
            self._note(self._copied, self.returned_through(self._copied))
            self._cursor.set_property(f"{_SKIPPED}{error.ledger_id}:{error.first}", error.end - 1)
            self._topic.notify()

    def _forget_skipped(self) -> None:
        for name in tuple(filter(_is_of_skipped, self._cursor.properties)):
            self._cursor.set_property(name, None)

    def _note(self, copied: Copied, position: Position) -> None:
        are_noted = self._are_noted(copied)
        if not are_noted:
            self._forget_skipped()
        if copied.life is not None or not are_noted:
            self._cursor.set_property(_LIFE, copied.life)
        self._cursor.set_property(_BOUNDARY, copied.boundary)
        self._cursor.set_property(_LEDGER, position.ledger_id)
        self._cursor.set_property(_ENTRY, position.entry_id)
        self._replicator.flush_soon()


def _is_of_skipped(name: str) -> bool:
    return name.startswith(_SKIPPED)
