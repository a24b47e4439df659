"""The file of delayed entries and their times, for all topics of a broker.

The file is a SQLite database, derived from the log. The watermark of a topic, written in the same transaction as the
entries, is the position up to which the log is indexed; later entries are searched again. The loss of the file, or of
unsynced transactions, therefore loses no entry.

Statements are few and large, because each step of a statement releases and acquires Python's interpreter lock.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyroaring import BitMap

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.base.position import Position
from magnetar.broker.delayed.window import PAGE_MAX, Delayed
from magnetar.metadata.sqlite_errors import sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DELAYED = "delayed.sqlite"
"""Name of the file in a data directory."""

REMOVABLE_MAX = 4 * PAGE_MAX
"""Entries that are read at once for removal."""

_Row = tuple[int, int, int]
"""``deliver_at_ms``, ledger id and entry id."""

_BEFORE_ALL: _Row = (-(2**63), 0, 0)
_AFTER_ALL: _Row = (2**63 - 1, 2**63 - 1, 0)

_SCHEMA_VERSION = 1
_CACHE_KIB = 16 * 1024
_LOAD_MAX = 50_000
"""Entries read at once when a topic is loaded."""

# NORMAL syncs only when the write-ahead log is copied into the file: the
# watermark determines the missing entries after a crash.
_OPEN = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE IF NOT EXISTS topics (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, incarnation TEXT NOT NULL,
    watermark_ledger INTEGER NOT NULL, watermark_entry INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS entries (
    topic INTEGER NOT NULL, deliver_at_ms INTEGER NOT NULL, ledger INTEGER NOT NULL, entry INTEGER NOT NULL,
    PRIMARY KEY (topic, deliver_at_ms, ledger, entry)
) WITHOUT ROWID;
"""
_FIND_TOPIC = "SELECT id, incarnation, watermark_ledger, watermark_entry FROM topics WHERE name = ?"
_PUT_TOPIC = """
INSERT INTO topics (name, incarnation, watermark_ledger, watermark_entry) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET watermark_ledger = excluded.watermark_ledger, watermark_entry = excluded.watermark_entry
"""
_PUT_ENTRIES = """
INSERT OR IGNORE INTO entries SELECT ?, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
json_extract(value, '$[2]') FROM json_each(?)
"""
_DELETE_THROUGH = "DELETE FROM entries WHERE topic = ? AND (deliver_at_ms, ledger, entry) <= (?, ?, ?)"
_PAGE = """
SELECT group_concat(deliver_at_ms || ',' || ledger || ',' || entry) FROM (
    SELECT deliver_at_ms, ledger, entry FROM entries
    WHERE topic = ? AND (deliver_at_ms, ledger, entry) > (?, ?, ?) AND (deliver_at_ms, ledger, entry) <= (?, ?, ?)
    ORDER BY deliver_at_ms, ledger, entry LIMIT ?
)
"""


@dataclass(frozen=True, slots=True)
class Request:
    """The work of a topic in one turn, in this order."""

    delete_through: Delayed | None
    """Delete the entries up to and including this one."""
    entries: Sequence[Delayed]
    """Add these."""
    watermark: Position
    """Position up to which, inclusive, the log is indexed."""
    pages_after: Sequence[Delayed]
    """Read a page after each of these entries."""
    removable_through: Delayed | None
    """Read the first entries up to and including this one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Entries read in a turn."""

    pages: Sequence[list[Delayed]] = ()
    removable: Sequence[Delayed] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """State of a topic in the file."""

    watermark: Position | None = None
    """None: nothing."""
    ledgers: dict[int, BitMap] = field(default_factory=dict)
    """Entry ids of the delayed entries, by ledger."""


class DelayedStore:
    """The file at ``path``, opened at its first use. Used by one thread.

    Every method raises StorageError, and CorruptionError if the file is damaged: call ``discard`` then.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Create it without opening the file; with ``read_only``, changes are refused."""
        self.path = path
        self._read_only = read_only
        self.used_bytes = 0
        """Used bytes of the file, at the last write."""
        self.entries = 0
        """Number of entries of all topics."""
        self._opened: sqlite3.Connection | None = None

    def load(self, name: str, incarnation: str) -> Loaded:
        """Return the state of a topic; delete the state of an earlier topic with the same name."""
        with self._errors():
            found = self._connection().execute(_FIND_TOPIC, (name,)).fetchone()
            if found is None:
                return Loaded()
            topic, known, *watermark = found
            if known != incarnation:
                self.forget(name)
                return Loaded()
            ledgers: dict[int, BitMap] = {}
            after = _BEFORE_ALL
            while rows := self._rows(topic, after, _AFTER_ALL, _LOAD_MAX):
                for ledger_id, entry_ids in _by_ledger(rows):
                    ledgers.setdefault(ledger_id, BitMap()).update(entry_ids)
                after = max(rows)
            return Loaded(Position(*watermark), ledgers)

    def turn(self, name: str, incarnation: str, request: Request) -> Answer:
        """Do the writes of a turn, then its reads."""
        with self._errors():
            topic = self._write(name, incarnation, request)
            pages = [self._page(topic, after, None, PAGE_MAX) for after in request.pages_after]
            through = request.removable_through
            return Answer(pages, [] if through is None else self._page(topic, None, through, REMOVABLE_MAX))

    def delete_before(self, name: str, ledger_id: int) -> None:
        """Delete a topic's entries in the ledgers before this one."""
        with self._errors(), self._transaction() as connection:
            found = connection.execute(_FIND_TOPIC, (name,)).fetchone()
            if found is not None:
                self._delete(connection, "DELETE FROM entries WHERE topic = ? AND ledger < ?", (found[0], ledger_id))

    def forget(self, name: str) -> None:
        """Delete a topic."""
        with self._errors(), self._transaction() as connection:
            found = connection.execute(_FIND_TOPIC, (name,)).fetchone()
            if found is not None:
                self._delete(connection, "DELETE FROM entries WHERE topic = ?", (found[0],))
                connection.execute("DELETE FROM topics WHERE id = ?", (found[0],))

    def all_entries(self, name: str) -> tuple[str, Position, list[Delayed]] | None:
        """Return a topic's identity, watermark and entries, ordered by time; None if the file does not have it."""
        with self._errors():
            found = self._connection().execute(_FIND_TOPIC, (name,)).fetchone()
            if found is None:
                return None
            topic, incarnation, *watermark = found
            return incarnation, Position(*watermark), self._page(topic, None, None, -1)

    def discard(self) -> None:
        """Delete the file; the next use creates an empty one."""
        self.close()
        try:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            message = f"{self._what()}: cannot be deleted: {error}"
            raise StorageError(message) from error

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _write(self, name: str, incarnation: str, request: Request) -> int:
        with self._transaction() as connection:
            connection.execute(_PUT_TOPIC, (name, incarnation, *request.watermark))
            topic: int = connection.execute(_FIND_TOPIC, (name,)).fetchone()[0]
            if request.delete_through is not None:
                self._delete(connection, _DELETE_THROUGH, (topic, *_flat(request.delete_through)))
            if request.entries:
                flat = json.dumps([_flat(entry) for entry in sorted(request.entries)])
                self.entries += connection.execute(_PUT_ENTRIES, (topic, flat)).rowcount
        return topic

    def _delete(self, connection: sqlite3.Connection, statement: str, values: tuple[int, ...]) -> None:
        self.entries -= connection.execute(statement, values).rowcount

    def _page(self, topic: int, after: Delayed | None, through: Delayed | None, count_max: int) -> list[Delayed]:
        lower = _BEFORE_ALL if after is None else _flat(after)
        upper = _AFTER_ALL if through is None else _flat(through)
        rows = self._rows(topic, lower, upper, count_max)
        return sorted(Delayed(deliver_at_ms, Position(ledger, entry)) for deliver_at_ms, ledger, entry in rows)

    def _rows(self, topic: int, after: _Row, through: _Row, count_max: int) -> list[_Row]:
        (text,) = self._connection().execute(_PAGE, (topic, *after, *through, count_max)).fetchone()
        numbers = list(map(int, text.split(","))) if text else []
        return list(zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
            (self.entries,) = self._opened.execute("SELECT count(*) FROM entries").fetchone()
            self._measure(self._opened)
        return self._opened

    def _open(self) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode=ro" if self._read_only else str(self.path)
        connection = sqlite3.connect(address, uri=self._read_only, isolation_level=None, timeout=0)
        try:
            if not self._read_only:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # first, so that no shared memory is used
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            self._check_format(found)
            if not self._read_only:
                connection.executescript(_OPEN)
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_format(self, found: int) -> None:
        if found not in (0, _SCHEMA_VERSION):
            message = f"{self._what()}: has format {found}; this release reads format {_SCHEMA_VERSION}"
            raise CorruptionError(message)

    def _measure(self, connection: sqlite3.Connection) -> None:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        self.used_bytes = (pages - free) * size

    def size_of(self, entries: int) -> int:
        """Return the share of the file, in bytes, of a number of entries."""
        return self.used_bytes * entries // max(self.entries, 1)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection, entries = self._connection(), self.entries
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            self.entries = entries
            # After some errors, such as a full disk, SQLite has already rolled back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._measure(connection)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with sqlite_errors(self._what()):
            yield

    def _what(self) -> str:
        return f"index of delayed messages {self.path}"


def _flat(entry: Delayed) -> _Row:
    return entry.deliver_at_ms, *entry.position


def _by_ledger(rows: list[_Row]) -> Iterator[tuple[int, array[int]]]:
    for ledger_id in {ledger for _, ledger, _ in rows}:
        yield ledger_id, array("I", [entry for _, ledger, entry in rows if ledger == ledger_id])
