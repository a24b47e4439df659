"""The common part of all metadata stores: a tree in memory, and commits that a subclass makes durable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.histogram import Histogram
from magnetar.metadata.store import Delete, Put, Watchers
from magnetar.metadata.tree import MetadataTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.world import Clock
    from magnetar.metadata.store import Change, Delete, OnDurable, Put, Versioned


@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """A commit in progress; a barrier has no changes."""

    changes: Sequence[Change]
    on_durable: OnDurable | None


class CachedMetadataStore(ABC):
    """See MetadataStore. A subclass makes transactions durable in the order of their submission."""

    def __init__(self, clock: Clock) -> None:
        """Create an empty store; ``clock`` gives the time of changes."""
        self.commit_times = Histogram()
        self._clock = clock
        self._tree = MetadataTree()
        self._watchers = Watchers()
        self._pending: deque[Transaction] = deque()
        """Submitted transactions that are neither durable nor failed, oldest first."""
        self._reports: deque[tuple[Transaction, StorageError | None]] = deque()
        """Results that are not reported yet, oldest first."""

    def get(self, path: str) -> Versioned | None:
        """See MetadataStore."""
        return self._tree.get(path)

    def children(self, path: str) -> list[str]:
        """See MetadataStore."""
        return self._tree.children(path)

    def each_child(self, path: str) -> Iterator[str]:
        """See MetadataStore."""
        return self._tree.each_child(path)

    def below(self, path: str) -> Iterator[tuple[str, bytes]]:
        """See MetadataStore."""
        return self._tree.below(path)

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """See MetadataStore."""
        changes = self._tree.apply(operations, int(self._clock.now() * 1000))
        self._submit_next(Transaction(changes, on_durable))
        return [each.after.version for each in changes if each.after is not None]

    def barrier(self, on_durable: OnDurable) -> None:
        """See MetadataStore."""
        if self._pending or self._reports:
            self._submit_next(Transaction((), on_durable))
        else:
            on_durable(None)

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """See MetadataStore."""
        return self._watchers.add(prefix, callback)

    def _submit_next(self, transaction: Transaction) -> None:
        self._pending.append(transaction)
        self._submit(transaction)

    @abstractmethod
    def _submit(self, transaction: Transaction) -> None:
        """Start to make a transaction durable."""

    def _committed(self, count: int) -> None:
        """Report that the ``count`` oldest transactions are durable."""
        self._reports += [(self._pending.popleft(), None) for _ in range(count)]
        self._deliver_some()

    def _failed(self, error: StorageError) -> None:
        """Revert and report all pending transactions as failed, because each depends on the ones before it."""
        failed = tuple(self._pending)
        self._pending.clear()
        for transaction in reversed(failed):
            self._tree.revert(transaction.changes)
        self._reports += [(transaction, error) for transaction in failed]
        self._deliver()

    def _deliver_some(self) -> None:
        """Report in order. A subclass that leaves some reports for later has to return to them by itself."""
        self._deliver()

    def _deliver(self) -> None:
        """Report in order, also what is reported while somebody is told."""
        while self._reports:
            self._deliver_next()

    def _deliver_next(self) -> None:
        transaction, error = self._reports.popleft()
        if error is None:
            for change in transaction.changes:
                self._watchers.notify(change)
        if transaction.on_durable is not None:
            transaction.on_durable(error)


def net_changes(transactions: Sequence[Transaction]) -> dict[str, Versioned | None]:
    """Return the value of each changed path after ``transactions``; None if it is absent."""
    return {change.path: change.after for transaction in transactions for change in transaction.changes}
