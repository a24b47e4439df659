"""A topic with cursors, with crashes of the broker and a disk that may be full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.position import Position
from magnetar.base.real import SystemClock
from magnetar.cursor.limits import DEFAULT_LIMITS, CursorLimits
from magnetar.cursor.store import CursorStore
from magnetar.metadata.memory import MemoryMetadataStore
from tests.unit.cursor.fakes import Log, MemoryLedgerStore

if TYPE_CHECKING:
    from magnetar.cursor.cursor import Cursor
    from magnetar.metadata.cached import Transaction

TOPIC = "persistent://public/default/orders"


class FillingMetadataStore(MemoryMetadataStore):
    """A metadata store on a disk that may be full."""

    full = False
    holds = False
    """Whether results are held back until ``release``."""

    def crash(self) -> None:
        """Lose what is not durable."""
        for transaction in reversed(self._pending):
            self._tree.revert(transaction.changes)
        self._pending.clear()
        self.holds = False

    def release(self) -> None:
        """Make durable what waits or, where the disk is full, let it fail."""
        self.holds = False
        if self.full:
            self._failed(DiskFullError("no space"))
        else:
            self._committed(len(self._pending))

    def _submit(self, transaction: Transaction) -> None:
        if self.holds:
            return
        if self.full:
            self._failed(DiskFullError("no space"))
        else:
            super()._submit(transaction)


class Setup:
    """A topic of 100 entries in one ledger, whose broker can crash."""

    def __init__(self, limits: CursorLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.log = Log()
        self.positions = [self.log.append() for _ in range(100)]
        self.start = Position(self.log.ledger_id, -1)
        self.store = MemoryLedgerStore()
        self.metadata = FillingMetadataStore(SystemClock())
        self.cursors = CursorStore(self.store, self.metadata, TOPIC, self.log, limits)

    def flush(self, cursor: Cursor) -> None:
        outcomes: list[StorageError | None] = []
        cursor.flush(outcomes.append)
        assert outcomes == []
        self.store.settle()
        assert outcomes == [None]

    def crash(self) -> Cursor:
        self.store.crash()
        self.metadata.crash()
        self.cursors = CursorStore(self.store, self.metadata, TOPIC, self.log, self.limits)
        (cursor,) = filter(None, self.cursors.open_all())
        return cursor

    def records(self, cursor: Cursor) -> list[int]:
        """Return the sizes of the records that recovery would read."""
        assert cursor.ledger_id is not None
        return [len(run.annotation) for run in self.store.runs(cursor.ledger_id)]


def same(cursor: Cursor, other: Cursor) -> bool:
    states = [
        (
            each.state.mark_delete_position,
            each.state.deleted_ranges(),
            list(each.state.partial_batches()),
            each.properties,
            each.subscription_properties,
        )
        for each in (cursor, other)
    ]
    return states[0] == states[1]
