"""A topic's list of ledgers: its format, where it is stored, and who is told that it was lost.

The list is one JSON value in the metadata store, and the topic exists as long as there is one::

    {"ledgers": [{"ledgerId": 5, "createdAt": ms, "closedAt": ms or null, "entries": 10,
                  "appendedBy": ms, "recovered": true}, ...],
     "lastPosition": "4:9", "properties": {"name": "value"}, "clock": {"boot": "id", "offset": ms}}

A ledger is listed before its first entry is written. ``entries`` is how many were known to be durable when the list
was written: the ledger may hold more, never fewer. ``appendedBy`` is when the last entry of a closed ledger was
appended; where it is missing, ``closedAt`` is a later bound. ``recovered`` is there only if the ledger was closed when
the topic was opened after a crash: nobody recorded when its last entries were appended. ``lastPosition`` is the newest
durable entry by then, trimmed or not. ``clock`` relates the times to the monotonic clock of the machine: ``offset`` is
the lead of the wall clock over it. It tells by how much the wall clock was set since, unless the machine started again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import BadVersionError, CorruptionError, ManagedLedgerFencedError, StorageError
from magnetar.base.position import Position
from magnetar.ledger.deletions import delete_noted, deletion_steps, note_deletion
from magnetar.metadata.resources import DELETED_TOPIC, managed_ledger_path
from magnetar.metadata.store import ABSENT, Delete, Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from magnetar.base.names import TopicName
    from magnetar.base.world import Clock
    from magnetar.ledger.chain import ChainLedger
    from magnetar.ledger.log_positions import LogPositions
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import MetadataStore, OnDurable


def listed_ledgers(value: bytes) -> list[int] | None:
    """Return the ledgers that a stored list names; None if the list cannot be read."""
    try:
        return [int(each["ledgerId"]) for each in json.loads(value)["ledgers"]]
    except (ValueError, KeyError, TypeError):
        return None


def listed_property(value: bytes, key: str) -> str | None:
    """Return what a stored list keeps under ``key``; None if there is nothing, or if the list cannot be read."""
    try:
        found = json.loads(value)["properties"].get(key)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def without_property(value: bytes, key: str) -> bytes:
    """Return a stored list that has a property without that property."""
    listed = json.loads(value)
    del listed["properties"][key]
    return json.dumps(listed).encode()


class LedgerList:
    """The list of one topic, with one writer. Used on the event loop's thread."""

    def __init__(self, store: LedgerStore, metadata: MetadataStore, name: TopicName, clock: Clock) -> None:
        """Nothing is read yet."""
        self.name = str(name)
        """The name of the topic."""
        self.version = ABSENT
        """The version of the newest list that was committed, durable or not yet."""
        self.properties: dict[str, str] = {}
        """What the topic keeps with its list."""
        self.is_unsaved = False
        """Whether a ledger was closed or dropped, or the wall clock set, since the list was committed."""
        self.pending = 0
        """Commits of the list that are neither durable nor failed."""
        self.when_fenced: Callable[[StorageError], None] = lambda _: None
        """Told once that the topic must not be written any more: its list was lost to another writer, or not stored."""
        self.failure: StorageError | None = None
        """Why the list is not written any more."""
        self._path = managed_ledger_path(name)
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._dropped: list[int] = []
        """Ledgers that are to be deleted with the next commit, which no longer lists them."""
        self._dropping = 0
        """Commits under way that no longer list dropped ledgers."""

    def load(self) -> dict[str, Any] | None:
        """Read the list, and finish a deletion that was interrupted; None if there is none.

        Raises CorruptionError, naming the path, if it is no JSON.
        """
        stored = self._metadata.get(self._path)
        if stored is not None and stored.value == DELETED_TOPIC:
            self._metadata.commit([Delete(self._path, stored.version)])
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
        return CorruptionError(f"{self._path}: the list of ledgers cannot be read: {error!r}")

    def drop(self, ledger_ids: Iterable[int]) -> None:
        """Delete ledgers, which the log has no more, together with the next list."""
        self._dropped += ledger_ids
        self.is_unsaved = True

    @property
    def has_dropped(self) -> bool:
        """Whether ledgers were dropped and no list without them is durable: a crash brings their entries back."""
        return bool(self._dropped) or self._dropping > 0

    def commit(self, log: LogPositions, on_durable: OnDurable = lambda _: None, along_with: Sequence[Put] = ()) -> None:
        """Write the list as it is, in one transaction with ``along_with``.

        Raises ManagedLedgerFencedError if another writer has the topic now. A list that is not stored is written with
        the next one.
        """
        log.follow_wall_clock()
        dropped, self._dropped = self._dropped, []
        noted = [note_deletion(dropped)] if dropped else []

        def reported(error: StorageError | None) -> None:
            self._dropping -= 1 if dropped else 0
            if error is None and dropped:
                delete_noted(self._store, self._metadata, dropped)
            elif error is not None:
                self.is_unsaved = True
                self._dropped = dropped + self._dropped
            on_durable(error)

        self.is_unsaved = False
        self._dropping += 1 if dropped else 0
        listed = Put(self._path, self._encode(log), self.version)
        self._submit([listed, *noted, *along_with], self.version + 1, reported)

    def delete(
        self, log: LogPositions, also: Sequence[int], along_with: Sequence[Put | Delete], done: OnDurable
    ) -> None:
        """Remove the list for good, in one transaction with ``along_with``, and note the deletion of all ledgers.

        ``also`` are ledgers beside those of the log. Raises ManagedLedgerFencedError as ``commit`` does. When it is
        durable, ``erasure`` has to follow.
        """
        self.drop([*(ledger.ledger_id for ledger in log.ledgers()), *also])
        operations: list[Put | Delete] = [Delete(self._path, self.version), *along_with]
        if self._dropped:
            operations.append(note_deletion(self._dropped))
        self._submit(operations, ABSENT, done)
        self.failure = StorageError(f"{self.name} is being deleted")

    def erasure(self) -> Iterator[None]:
        """Delete the ledgers of a list that was removed, in steps. The next start deletes what these have not."""
        return deletion_steps(self._store, self._metadata, self._dropped)

    def _submit(self, operations: Sequence[Put | Delete], version: int, on_durable: OnDurable) -> None:
        """Commit operations, with which the list has this version."""
        before = self.version

        def reported(error: StorageError | None) -> None:
            self.pending -= 1
            if error is not None:
                self.version = min(self.version, before)
            on_durable(error)

        if self.failure is None:
            self.version = version  # it may be reported before ``commit`` returns
            self.pending += 1
            try:
                self._metadata.commit(operations, reported)
            except BadVersionError as error:
                self.pending -= 1
                self.fail(ManagedLedgerFencedError(f"{self.name}: another writer has its list of ledgers: {error}"))
            else:
                return
        raise ManagedLedgerFencedError(str(self.failure))  # a new one: an error grows with each raise

    def fail(self, error: StorageError) -> None:
        """Write the list no more, because of ``error``."""
        if self.failure is None:
            self.failure = error
            self.when_fenced(error)

    def _encode(self, log: LogPositions) -> bytes:
        listed = {
            "ledgers": [self._entry(log, ledger) for ledger in log.ledgers()],
            "lastPosition": str(log.last_confirmed_entry),
            "properties": self.properties,
            "clock": {"boot": self._clock.boot(), "offset": round(log.wall_offset_s * 1000)},
        }
        return json.dumps(listed).encode()

    def _entry(self, log: LogPositions, ledger: ChainLedger) -> dict[str, int | bool | None]:
        listed: dict[str, int | bool | None] = {
            "ledgerId": ledger.ledger_id,
            "createdAt": ledger.created_ms,
            "closedAt": ledger.closed_ms,
            "entries": log.confirmed_in(ledger),
        }
        bound = log.times.bound_of(Position(ledger.ledger_id, ledger.entries - 1))
        if ledger.closed_ms is not None and bound is not None and ledger.entries:
            listed["appendedBy"] = log.wall_ms(bound) + 1  # it is cut to milliseconds
            if ledger.is_recovered:
                listed["recovered"] = True
        return listed
