"""A topic's list of ledgers: its format, where it is stored, and who is told that it was lost.

The list is one JSON value in the metadata store, and the topic exists as long as there is one::

    {"ledgers": [{"ledgerId": 5, "createdAt": ms, "closedAt": ms or null, "entries": 10,
                  "appendedBy": ms, "recovered": true}, ...],
     "lastPosition": "4:9", "properties": {"name": "value"}}

A ledger is listed before its first entry is written. ``entries`` is how many were known to be durable when the list
was written: the ledger may hold more, never fewer. ``appendedBy`` is when the last entry of a closed ledger was
appended; where it is missing, ``closedAt`` is a later bound. ``recovered`` is there only if the ledger was closed when
the topic was opened after a crash: nobody recorded when its last entries were appended. ``lastPosition`` is the newest
durable entry by then, trimmed or not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import BadVersionError, CorruptionError, ManagedLedgerFencedError
from magnetar.base.position import Position
from magnetar.metadata.resources import DELETED_TOPIC, managed_ledger_path
from magnetar.metadata.store import ABSENT, Put

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.base.world import Clock
    from magnetar.ledger.chain import ChainLedger
    from magnetar.ledger.log_positions import LogPositions
    from magnetar.metadata.store import MetadataStore


class LedgerList:
    """The list of one topic, with one writer. Used on the event loop's thread."""

    def __init__(self, metadata: MetadataStore, name: TopicName, clock: Clock) -> None:
        """Nothing is read yet."""
        self.name = str(name)
        """The name of the topic."""
        self.path = managed_ledger_path(name)
        self.version = ABSENT
        """The version of the newest list that was committed, durable or not yet."""
        self.properties: dict[str, str] = {}
        """What the topic keeps with its list."""
        self.is_unsaved = False
        """Whether a ledger was closed, or the wall clock set, since the list was written."""
        self.pending = 0
        """Commits of the list that are neither durable nor failed."""
        self.when_fenced: Callable[[StorageError], None] = lambda _: None
        """Told once that the topic must not be written any more: its list was lost to another writer, or not stored."""
        self.failure: StorageError | None = None
        """Why the list is not written any more."""
        self._metadata = metadata
        self._clock = clock

    def load(self) -> dict[str, Any] | None:
        """Read the list, and finish a deletion that was interrupted; None if there is none.

        Raises CorruptionError, naming the path, if it is no JSON.
        """
        stored = self._metadata.get(self.path)
        if stored is not None and stored.value == DELETED_TOPIC:
            self._metadata.delete(self.path, stored.version)
            return None
        if stored is None:
            return None
        self.version = stored.version
        try:
            listed: dict[str, Any] = json.loads(stored.value)
        except ValueError as error:
            raise self.unreadable(error) from error
        return listed

    def unreadable(self, error: Exception) -> CorruptionError:
        """Return the error that says that the list cannot be read."""
        return CorruptionError(f"{self.path}: the list of ledgers cannot be read: {error!r}")

    def put(self, log: LogPositions, skipped: int = 0, properties: Mapping[str, str] | None = None) -> Put:
        """Return the write of a new list in the place of the newest one.

        It leaves out the first ``skipped`` ledgers, and by default has the properties as they are.
        """
        listed = {
            "ledgers": [self._entry(log, ledger) for ledger in log.ledgers()[skipped:]],
            "lastPosition": str(log.last_confirmed_entry),
            "properties": self.properties if properties is None else properties,
        }
        return Put(self.path, json.dumps(listed).encode(), self.version)

    def _entry(self, log: LogPositions, ledger: ChainLedger) -> dict[str, int | bool | None]:
        listed: dict[str, int | bool | None] = {
            "ledgerId": ledger.ledger_id,
            "createdAt": ledger.created_ms,
            "closedAt": ledger.closed_ms,
            "entries": log.confirmed_in(ledger),
        }
        bound = log.times.bound_of(Position(ledger.ledger_id, ledger.entries - 1))
        if ledger.closed_ms is not None and bound is not None and ledger.entries:
            age_ms = int((self._clock.monotonic() - bound) * 1000)
            listed["appendedBy"] = int(self._clock.now() * 1000) - age_ms + 1  # both are cut to milliseconds
            if ledger.is_recovered:
                listed["recovered"] = True
        return listed

    def save(self, log: LogPositions) -> None:
        """Write the list as it is; a list that cannot be stored is written with the next one.

        Raises ManagedLedgerFencedError, or StorageError.
        """

        def stored(error: StorageError | None) -> None:
            if error is not None:
                self.is_unsaved = True

        self.is_unsaved = False
        self.commit(log, stored)

    def commit(self, log: LogPositions, on_durable: Callable[[StorageError | None], None]) -> None:
        """Write a new list; raises ManagedLedgerFencedError if another writer has the topic now.

        After an error the list is as it was before.
        """
        put, before = self.put(log), self.version

        def reported(error: StorageError | None) -> None:
            self.pending -= 1
            if error is not None:
                self.version = min(self.version, before)
            on_durable(error)

        def commit() -> int:
            self.version = before + 1  # it may be reported before ``commit`` returns
            self.pending += 1
            try:
                self._metadata.commit([put], reported)
            except BadVersionError:
                self.pending -= 1
                raise
            return self.version

        self.write(commit)

    def write(self, write: Callable[[], int]) -> None:
        """Have ``write`` replace the list and return the new version.

        Raises ManagedLedgerFencedError, or StorageError as ``write`` does.
        """
        if self.failure is None:
            try:
                self.version = write()
            except BadVersionError as error:
                self.fail(ManagedLedgerFencedError(f"{self.name}: another writer has its list of ledgers: {error}"))
            else:
                return
        raise ManagedLedgerFencedError(str(self.failure))  # a new one: an error grows with each raise

    def fail(self, error: StorageError) -> None:
        """Write the list no more, because of ``error``."""
        if self.failure is None:
            self.failure = error
            self.when_fenced(error)
