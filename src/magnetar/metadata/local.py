"""The embedded metadata store: one SQLite file, owned by one broker."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.metadata.cached import CachedMetadataStore, net_changes
from magnetar.metadata.sqlite_errors import sqlite_errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from magnetar.base.world import Clock
    from magnetar.metadata.cached import Transaction

_SCHEMA_VERSION = 1
# Exclusive locking locks out a second broker; FULL makes every commit durable (P1).
_OPEN = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS entries (
    path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, modified_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""
_LOAD = "SELECT path, value, version, modified_ms FROM entries"
_PUT = "INSERT OR REPLACE INTO entries (path, value, version, modified_ms) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM entries WHERE path = ?"
_HAS_ENTRIES = "SELECT count(*) FROM sqlite_schema WHERE name = 'entries'"

GROUP_MAX = 10_000
"""Maximum number of commits in one transaction of SQLite."""

REPORTS_S = 0.002
"""Seconds of a turn of the event loop in which durable commits are reported. The last report may exceed it."""


class LocalMetadataStore(CachedMetadataStore):
    """A MetadataStore in the file ``path``, which is read into memory when it is opened.

    Before ``serve``, a commit is durable, or has failed, when it returns. Afterwards a thread commits: it writes all
    waiting commits as one transaction of SQLite.
    """

    def __init__(self, path: Path, clock: Clock, *, read_only: bool = False) -> None:
        """Open or create the file; with ``read_only``, changes are refused.

        Raises StorageError if another broker holds it, CorruptionError if it is not a metadata store.
        """
        super().__init__(clock)
        self._path = path
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: SimpleQueue[Transaction | None] = SimpleQueue()
        """Transactions for the thread; None ends it."""
        self._outcomes: SimpleQueue[tuple[int, StorageError | None]] = SimpleQueue()
        """Results of the thread: the number of durable transactions, or the error of a group."""
        self._next_reports: asyncio.Handle | None = None
        """The callback that reports what earlier turns left."""
        self._resumed = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="magnetar-metadata", daemon=True)
        mode = "ro" if read_only else "rwc"
        with self._errors():
            address = f"{path.absolute().as_uri()}?mode={mode}"
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, timeout=0, check_same_thread=False
            )
            if not read_only:
                self._connection.executescript(_OPEN)
        self._check_schema_version()
        with self._errors():
            if self._connection.execute(_HAS_ENTRIES).fetchone() == (1,):
                self._tree.load(self._connection.execute(_LOAD))

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit in a thread from now on, and report on ``loop``."""
        self._loop = loop
        self._thread.start()

    def damage(self) -> list[str]:
        """Read the whole file and return descriptions of its damage; must not be called after ``serve``."""
        with self._errors():
            found = [text for (text,) in self._connection.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else [f"metadata store {self._path}: {text}" for text in found]

    def close(self) -> None:
        """Write and report pending commits, and close the file."""
        if self._loop is not None:
            while self._pending or self._reports:
                self._wait()
            self._queue.put(None)
            self._thread.join()
        self._connection.close()

    def _submit(self, transaction: Transaction) -> None:
        if self._loop is not None:
            self._queue.put(transaction)
            return
        try:
            self._write([transaction])
        except StorageError as error:
            self._failed(error)
        else:
            self._committed(1)

    # -- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        while group := self._take():
            began = self._clock.monotonic()
            try:
                self._write(group)
            except StorageError as error:
                self._outcomes.put((len(group), error))
                loop.call_soon_threadsafe(self._report)
                self._resumed.acquire()  # later commits depend on the failed one; they are reverted first
            else:
                self.commit_times.observe(self._clock.monotonic() - began)
                self._outcomes.put((len(group), None))
                loop.call_soon_threadsafe(self._report)

    def _take(self) -> list[Transaction]:
        """Wait for work, and return all of it; empty at the end."""
        group: list[Transaction] = []
        transaction = self._queue.get()
        while transaction is not None:
            group.append(transaction)
            if len(group) == GROUP_MAX or self._queue.empty():
                return group
            transaction = self._queue.get()
        if group:
            self._queue.put(None)
        return group

    def _report(self) -> None:
        """Report the results of the thread; called on the loop."""
        with suppress(Empty):
            while True:
                self._settle(*self._outcomes.get_nowait())

    def _wait(self) -> None:
        """Wait until some pending commits are written, and report all that are."""
        if not self._reports:
            self._settle(*self._outcomes.get())
        self._deliver()

    def _deliver_some(self) -> None:
        """Report in order, for REPORTS_S in each turn: a group may have thousands of commits."""
        if self._loop is None:
            self._deliver()
        elif self._next_reports is None:
            self._deliver_slice(self._loop)

    def _deliver_slice(self, loop: asyncio.AbstractEventLoop) -> None:
        ends_at = self._clock.monotonic() + REPORTS_S
        try:
            while self._reports:
                self._deliver_next()
                if self._clock.monotonic() >= ends_at:
                    break
        finally:
            if self._reports and self._next_reports is None:
                self._next_reports = loop.call_soon(self._deliver_rest)

    def _deliver_rest(self) -> None:
        self._next_reports = None
        self._deliver_some()

    def _settle(self, count: int, error: StorageError | None) -> None:
        if error is None:
            self._committed(count)
        else:
            self._fail(error)

    def _fail(self, error: StorageError) -> None:
        """Revert the commits that the thread has not written, and let it continue; called on the loop."""
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        self._resumed.release()
        self._failed(error)

    def _write(self, group: Sequence[Transaction]) -> None:
        changed = net_changes(group)
        if not changed:
            return
        with self._transaction():
            for path, stored in changed.items():
                if stored is None:
                    self._connection.execute(_DELETE, (path,))
                else:
                    self._connection.execute(_PUT, (path, stored.value, stored.version, stored.modified_ms))

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
                # After some errors, such as a full disk, SQLite has already rolled back.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _errors(self) -> AbstractContextManager[None]:
        return sqlite_errors(f"metadata store {self._path}")
