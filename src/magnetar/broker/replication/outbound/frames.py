"""MESSAGEs of the entries of a link, those of consecutive entries together if the holder takes runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.wire import commands
from magnetar.wire.entries.entry import schema_version
from magnetar.wire.links import RUN_BYTES_MAX, RUN_ENTRIES_MAX, RUNS_METADATA
from magnetar.wire.message_id import Link, LinkRun, OriginPosition

if TYPE_CHECKING:
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.geo.origins.extents import HeldExtent


class InCustody(NamedTuple):
    """Entries of another cluster that are consecutive in both logs."""

    origin: str
    extent: HeldExtent

    def at(self, position: Position) -> Position:
        """Return the position of an entry at its origin."""
        ledger_id, first = self.extent.origin_first
        return Position(ledger_id, first + position.entry_id - self.extent.local_first.entry_id)


class LinkFrames:
    """The frames of one turn."""

    __slots__ = (
        *("_consumer_id", "_custody", "_entries", "_entries_max", "_first", "_frames"),
        *("_last", "_link", "_previous", "_room", "_version"),
    )

    def __init__(self, consumer: Consumer, custody: InCustody | None = None) -> None:
        """Begin without entries for the holder ``consumer``: own entries of the cluster, or those in ``custody``."""
        self._consumer_id = consumer.consumer_id
        self._custody = custody
        self._entries_max = RUN_ENTRIES_MAX if RUNS_METADATA in consumer.metadata else 1
        self._frames: list[bytes] = []
        self._entries: list[bytes] = []
        """The entries that have no frame yet: a run."""
        self._first = self._last = self._previous = EARLIEST
        """The positions of the first and last of them, and of the last at its origin."""
        self._link = Link()
        """The place of the first of them on the link."""
        self._version = b""
        self._room = 0
        """Bytes that the run may still get."""

    def add(self, position: Position, link: Link, entry: bytes) -> None:
        """Add the next entry without a stamp, with its place on the link, which has positions of its origin."""
        version = schema_version(entry) if self._entries_max > 1 else b""
        last, previous = self._last, self._previous
        if (
            position == (last.ledger_id, last.entry_id + 1)
            and link == (previous, previous, False)
            and len(entry) <= self._room
            and 0 < len(self._entries) < self._entries_max
            and version == self._version
        ):
            self._entries.append(entry)
            self._room -= len(entry)
        else:
            self._end_run()
            self._entries, self._first, self._link, self._version = [entry], position, link, version
            self._room = RUN_BYTES_MAX - len(entry)
        self._last = position
        self._previous = position if self._custody is None else self._custody.at(position)

    def add_stamped(self, position: Position, entry: bytes) -> None:
        """Add the next entry in custody with a stamp, which names its place on the link."""
        self._end_run()
        self._add_frame(position, entry, Link())

    def take(self) -> bytes:
        """Return the frames of all entries."""
        self._end_run()
        return b"".join(self._frames)

    def _end_run(self) -> None:
        entries, self._entries = self._entries, []
        if not entries:
            return
        if len(entries) == 1 and self._custody is None:
            self._add_frame(self._first, entries[0], self._link)
            return
        origin = None
        if self._custody is not None:
            origin = OriginPosition(self._custody.origin, self._custody.at(self._first))
        run = LinkRun(self._first, self._link, list(map(len, entries)), self._version, b"".join(entries), origin)
        self._frames.append(commands.message_run(consumer_id=self._consumer_id, run=run))

    def _add_frame(self, position: Position, entry: bytes, link: Link) -> None:
        frame = commands.message_on_link(consumer_id=self._consumer_id, position=position, entry=entry, link=link)
        self._frames.append(frame)
