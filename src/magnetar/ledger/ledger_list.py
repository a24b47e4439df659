"""A topic's list of ledgers: where it is stored, which version is expected there, and who is told that it was lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import BadVersionError, CorruptionError, ManagedLedgerFencedError
from magnetar.metadata.resources import DELETED_TOPIC, managed_ledger_path
from magnetar.metadata.store import ABSENT, Put

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.metadata.store import MetadataStore


class LedgerList:
    """The list of one topic, with one writer. Used on the event loop's thread."""

    def __init__(self, metadata: MetadataStore, name: TopicName) -> None:
        """Nothing is read yet."""
        self.path = managed_ledger_path(name)
        self.version = ABSENT
        """The version of the newest list that was committed, durable or not yet."""
        self.pending = 0
        """Commits of the list that are neither durable nor failed."""
        self.when_fenced: Callable[[StorageError], None] = lambda _: None
        """Told once that the topic must not be written any more: its list was lost to another writer, or not stored."""
        self.failure: StorageError | None = None
        """Why the list is not written any more."""
        self._name = str(name)
        self._metadata = metadata

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

    def put(self, listed: dict[str, object]) -> Put:
        """Return the write of a new list in the place of the newest one."""
        return Put(self.path, json.dumps(listed).encode(), self.version)

    def commit(self, listed: dict[str, object], on_durable: Callable[[StorageError | None], None]) -> None:
        """Write a new list; raises ManagedLedgerFencedError if another writer has the topic now.

        After an error the list is as it was before.
        """
        put, before = self.put(listed), self.version

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
                self.fail(ManagedLedgerFencedError(f"{self._name}: another writer has its list of ledgers: {error}"))
            else:
                return
        raise ManagedLedgerFencedError(str(self.failure))  # a new one: an error grows with each raise

    def fail(self, error: StorageError) -> None:
        """Write the list no more, because of ``error``."""
        if self.failure is None:
            self.failure = error
            self.when_fenced(error)
