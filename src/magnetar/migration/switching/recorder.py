"""The journal of a migration, for several threads."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.migration.machine.effects import Effect
    from magnetar.migration.machine.migration import Migration
    from magnetar.migration.machine.records import Record, StageMoved
    from magnetar.migration.machine.tables import TopicState


class Records(Protocol):
    """See ``magnetar.migration.machine.journal.Journal``."""

    migration: Migration

    def append(self, record: Record) -> None:
        """Apply a record, and return when it is durable."""
        ...


class Recorder:
    """Reads and extends a journal for one thread at a time."""

    def __init__(self, journal: Records) -> None:
        """Use a journal that nothing else uses meanwhile."""
        self._journal = journal
        self._migration = journal.migration
        self._lock = Lock()

    def append(self, record: Record) -> None:
        """Store a record; raises as ``Journal.append``."""
        with self._lock:
            self._journal.append(record)

    def due(self) -> list[Effect]:
        """See ``Migration.due``."""
        with self._lock:
            return self._migration.due()

    def completion(self) -> StageMoved | None:
        """See ``Migration.completion``."""
        with self._lock:
            return self._migration.completion()

    def due_for(self, topics: Sequence[str]) -> Effect | None:
        """Return the first effect that is due for some topics; None if none is."""
        with self._lock:
            return next(iter(self._migration.due_for(topics)), None)

    def states(self, topics: Sequence[str]) -> list[TopicState]:
        """Return the states of topics."""
        with self._lock:
            return [self._migration.topics[topic] for topic in topics]

    def epoch(self, topic: str) -> int:
        """Return the number of the present attempt of a topic."""
        with self._lock:
            return self._migration.epochs[topic]

    def is_committed(self, topic: str) -> bool:
        """See ``Migration.is_committed``."""
        with self._lock:
            return self._migration.is_committed(topic)
