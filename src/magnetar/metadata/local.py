"""The embedded metadata store: one SQLite file, owned by one broker."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from magnetar.base.errors import NotFoundError, StorageError
from magnetar.metadata.sqlite_errors import sqlite_errors
from magnetar.metadata.store import Put, Versioned, Watchers, check_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from magnetar.base.world import Clock

_SCHEMA_VERSION = 1
# Exclusive locking keeps a second broker out of the directory; FULL makes every commit reach the disk (P1).
_OPEN = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS entries (
    path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, modified_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""
_GET = "SELECT value, version, modified_ms FROM entries WHERE path = ?"
_PUT = "INSERT OR REPLACE INTO entries (path, value, version, modified_ms) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM entries WHERE path = ?"
# Paths below a parent are those from "parent/" up to "parent0", for "0" is the character after "/".
_CHILDREN = """
SELECT DISTINCT substr(path, :skip, instr(substr(path, :skip) || '/', '/') - 1) AS name
FROM entries WHERE path >= :parent || '/' AND path < :parent || '0' ORDER BY name
"""


class LocalMetadataStore:
    """A MetadataStore in the file ``path``; one connection, one thread, every call committed before it returns."""

    def __init__(self, path: Path, clock: Clock, *, read_only: bool = False) -> None:
        """Open or create the file; ``read_only`` changes nothing in it, and refuses to.

        Raises StorageError if another broker holds it, CorruptionError if it is not such a store.
        """
        self._path = path
        self._clock = clock
        self._watchers = Watchers()
        mode = "ro" if read_only else "rwc"
        with self._errors():
            address = f"{path.absolute().as_uri()}?mode={mode}"
            self._connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0)
            if not read_only:
                self._connection.executescript(_OPEN)
        self._check_schema_version()

    def get(self, path: str) -> Versioned | None:
        """See MetadataStore."""
        with self._errors():
            row = self._connection.execute(_GET, (path,)).fetchone()
        return Versioned(*row) if row else None

    def put(self, path: str, value: bytes, expected_version: int | None = None) -> int:
        """See MetadataStore."""
        return self.put_many([Put(path, value, expected_version)])[0]

    def put_many(self, puts: Sequence[Put]) -> list[int]:
        """See MetadataStore."""
        modified_ms = int(self._clock.now() * 1000)
        versions = []
        with self._transaction():
            for put in puts:
                current = self._version(put.path)
                check_version(put.path, current, put.expected_version)
                versions.append(0 if current is None else current + 1)
                self._connection.execute(_PUT, (put.path, put.value, versions[-1], modified_ms))
        for put in puts:
            self._watchers.notify(put.path)
        return versions

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """See MetadataStore."""
        with self._transaction():
            current = self._version(path)
            if current is None:
                raise NotFoundError(path)
            check_version(path, current, expected_version)
            self._connection.execute(_DELETE, (path,))
        self._watchers.notify(path)

    def children(self, path: str) -> list[str]:
        """See MetadataStore."""
        parent = path.rstrip("/")
        with self._errors():
            rows = self._connection.execute(_CHILDREN, {"parent": parent, "skip": len(parent) + 2})
            return [name for (name,) in rows]

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Callable[[], None]:
        """See MetadataStore."""
        return self._watchers.add(prefix, callback)

    def damage(self) -> list[str]:
        """Read the whole file and return what is wrong with it, naming it."""
        with self._errors():
            found = [text for (text,) in self._connection.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else [f"metadata store {self._path}: {text}" for text in found]

    def close(self) -> None:
        """See MetadataStore."""
        self._connection.close()

    def _version(self, path: str) -> int | None:
        row = self._connection.execute("SELECT version FROM entries WHERE path = ?", (path,)).fetchone()
        return row[0] if row else None

    def _check_schema_version(self) -> None:
        with self._errors():
            (found,) = self._connection.execute("PRAGMA user_version").fetchone()
            if found == 0:
                self._connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        if found not in (0, _SCHEMA_VERSION):
            message = f"{self._path} has format {found}; this release reads format {_SCHEMA_VERSION}"
            raise StorageError(message)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back after some errors, a full disk among them.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _errors(self) -> AbstractContextManager[None]:
        return sqlite_errors(f"metadata store {self._path}")
