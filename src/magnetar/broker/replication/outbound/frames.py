"""MESSAGEs of the entries of a link, those of consecutive entries together if the holder takes runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.wire import commands
from magnetar.wire.entries.entry import schema_version
from magnetar.wire.links import RUN_BYTES_MAX, RUN_ENTRIES_MAX, RUNS_METADATA
from magnetar.wire.message_id import Link, LinkRun

if TYPE_CHECKING:
    from magnetar.broker.dispatch.consumer import Consumer


class LinkFrames:
    """The frames of one turn."""

    __slots__ = ("_consumer_id", "_entries", "_entries_max", "_first", "_frames", "_last", "_link", "_room", "_version")

    def __init__(self, consumer: Consumer) -> None:
        """Begin without entries for the holder ``consumer``."""
        self._consumer_id = consumer.consumer_id
        self._entries_max = RUN_ENTRIES_MAX if RUNS_METADATA in consumer.metadata else 1
        self._frames: list[bytes] = []
        self._entries: list[bytes] = []
        """The entries that have no frame yet: a run."""
        self._first = self._last = EARLIEST
        self._link = Link()
        """The place of the first of them on the link."""
        self._version = b""
        self._room = 0
        """Bytes that the run may still get."""

    def add(self, position: Position, link: Link, entry: bytes) -> None:
        """Add the next entry, with its place on the link."""
        version = schema_version(entry) if self._entries_max > 1 else b""
        last = self._last
        if (
            position == (last.ledger_id, last.entry_id + 1)
            and link == (last, last, False)
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

    def take(self) -> bytes:
        """Return the frames of all entries."""
        self._end_run()
        return b"".join(self._frames)

    def _end_run(self) -> None:
        entries, self._entries = self._entries, []
        if not entries:
            return
        if len(entries) == 1:
            frame = commands.message_on_link(
                consumer_id=self._consumer_id, position=self._first, entry=entries[0], link=self._link
            )
        else:
            run = LinkRun(self._first, self._link, list(map(len, entries)), self._version, b"".join(entries))
            frame = commands.message_run(consumer_id=self._consumer_id, run=run)
        self._frames.append(frame)
