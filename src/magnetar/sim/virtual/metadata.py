"""A metadata store with failing writes, and writes that end the process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from random import Random

    from magnetar.base.world import Clock
    from magnetar.metadata.cached import Transaction
    from magnetar.metadata.store import Change, Versioned
    from magnetar.sim.virtual.disk import FaultyDisk

COMMIT_S = 0.001
"""Virtual seconds for committing a group in a store that is not slow."""


class ProcessEnded(BaseException):
    """The end of the process. Not an Exception, because no handler runs after SIGKILL."""


class FaultyMetadataStore(MemoryMetadataStore):
    """See MetadataStore. Attributes and methods switch faults on and off.

    Before ``serve``, a commit is durable or has failed when it returns, as in ``LocalMetadataStore``.

    A store on a disk fails with the disk. Confirmed commits are synced, so that a loss of power preserves them. Commits
    with a failed sync have no effect while the process runs, but if the process ends before the next write, the next
    process may find them (ADR 12). It may also find commits in flight at the end of the process.
    """

    def __init__(
        self,
        clock: Clock,
        disk: Callable[[], FaultyDisk] | None = None,
        waits: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Create an empty store without faults, on ``disk`` if given; ``waits`` blocks the process for some seconds."""
        super().__init__(clock)
        self._disk = disk
        self._waits = waits
        self._loop: asyncio.AbstractEventLoop | None = None
        self.commit_s = 0.0
        """Virtual seconds for each write; 0: not slow."""
        self.in_doubt: Sequence[Transaction] | None = None
        """The newest write, if its sync failed."""
        self.found: Sequence[Transaction] | None = None
        """The write that was ``in_doubt`` in the previous process, if this one found it."""
        self.found_deletions: frozenset[str] = frozenset()
        """Paths that the previous process was deleting when it ended, and whose deletion this one found."""
        self._unreported: Sequence[Transaction] = ()
        """The last group of a process that ended with it, if it was written."""
        self.fail_writes = False
        """Whether every write raises DiskFullError and changes nothing."""
        self.failed_writes = 0
        """Number of failed writes."""
        self._group: Sequence[Transaction] = ()
        """The group in flight to the disk."""
        self._timer: asyncio.TimerHandle | None = None
        self._writes_to_failure: int | None = None
        self._damaged: dict[str, tuple[Versioned, Versioned]] = {}
        """By path, the written value, and the value after the damage."""
        self._writes_left: int | None = None
        self._is_last_written = False
        self._end: Callable[[], None] = lambda: None

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit in a later turn of ``loop`` from now on."""
        self._loop = loop

    def end_process_in(self, writes: int, end: Callable[[], None], *, is_written: bool) -> None:
        """Call ``end`` at the given write from now on (1: the next one), and raise ProcessEnded out of that write.

        ``is_written``: whether that write is durable. ``end`` must replace the store by ``reopened``.
        """
        assert writes > 0, "a write that is over cannot end the process"
        self._writes_left, self._end, self._is_last_written = writes, end, is_written

    def fail_in(self, writes: int) -> None:
        """Fail one write, counted from now on (1: the next one)."""
        assert writes > 0, "a write that is over cannot fail"
        self._writes_to_failure = writes

    def disarm(self) -> None:
        """Disarm ``end_process_in`` and ``fail_in``."""
        self._writes_left = self._writes_to_failure = None

    def reopened(self, *, with_doubtful: bool = False) -> FaultyMetadataStore:
        """Return the store of the next process: the durable values, without watches and faults.

        ``with_doubtful``: including commits in flight, or a write with a failed sync that no other write followed.
        """
        store = FaultyMetadataStore(self._clock, self._disk, self._waits)
        store._tree, store._damaged = self._tree.copy(), self._damaged
        for transaction in reversed(self._pending):
            store._tree.revert(transaction.changes)
        found = _changes(self._unreported)
        if with_doubtful:
            store.found = self.in_doubt
            doubtful = _changes((*(self.in_doubt or ()), *self._group))
            for change in doubtful:
                store._tree.set(change.path, change.after)
            found += doubtful
        store.found_deletions = frozenset(change.path for change in found if change.after is None)
        return store

    def damage(self, path: str, chance: Random) -> bool:
        """Cut the end of the value at ``path`` until ``restore``; return False if there is nothing to cut."""
        stored = self.get(path)
        if stored is None or len(stored.value) < 2:
            return False
        broken = replace(stored, value=stored.value[: chance.randint(1, len(stored.value) - 1)])
        self._damaged[path] = stored, broken
        self._tree.set(path, broken)
        return True

    def restore(self, path: str) -> bool:
        """Restore a damaged value; return False if it was written or deleted in the meantime."""
        stored, broken = self._damaged.pop(path, (None, None))
        if stored is None or self.get(path) != broken:
            return False
        self._tree.set(path, stored)
        return True

    def take_over(self, path: str) -> bool:
        """Store the value at ``path`` again, as another writer would; return False if there is none."""
        stored = self.get(path)
        if stored is not None:
            self.commit([Put(path, stored.value)])
        return stored is not None

    def written(self, path: str) -> Versioned | None:
        """Return the value as ``get`` does, and the original of a damaged value."""
        found = self.get(path)
        stored, broken = self._damaged.get(path, (None, None))
        return stored if found is not None and found == broken else found

    def _submit(self, transaction: Transaction) -> None:
        if self._loop is None:
            if self.commit_s:
                self._waits(self.commit_s)
            self._group = [transaction]
            self._write()
        elif not self._group:
            self._begin_group(self._loop)

    def _begin_group(self, loop: asyncio.AbstractEventLoop) -> None:
        self._group = tuple(self._pending)
        self._timer = loop.call_later(self.commit_s or COMMIT_S, self._write)

    def _write(self) -> None:
        """Write the group to the disk, and report it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        group = self._group
        changes = [transaction for transaction in group if transaction.changes]
        error = self._error_of(changes) if changes else None
        if error is None and changes:
            self._end_process_unless_left(changes)
        self._group = ()
        if error is not None:
            self.failed_writes += 1
            self._failed(error)
        else:
            self._committed(len(group))
        if self._loop is not None and self._pending and not self._group:
            self._begin_group(self._loop)

    def _error_of(self, group: Sequence[Transaction]) -> StorageError | None:
        """Take disk space and sync; return an error like SQLite's."""
        fails_alone = sum(self._is_to_fail() for _ in group)  # count each transaction
        if self.fail_writes or fails_alone:
            return DiskFullError("metadata store: database or disk is full")
        disk = self._disk() if self._disk is not None else None
        if disk is not None:
            changes = _changes(group)
            size = sum(len(change.path) + (len(change.after.value) if change.after else 0) for change in changes)
            if disk.room is not None and disk.room < size:
                return DiskFullError("metadata store: database or disk is full")
            if disk.takes_no_sync():
                self.in_doubt = group
                return StorageError("metadata store: disk I/O error")
            disk.take_room(size)
        self.in_doubt = None
        return None

    def _end_process_unless_left(self, group: Sequence[Transaction]) -> None:
        if self._writes_left is None:
            return
        self._writes_left -= len(group)
        if self._writes_left > 0:
            return
        self._writes_left = None
        if self._is_last_written:  # this write must not be reported any more
            self._unreported = self._group
            for _ in self._group:
                self._pending.popleft()
        self._group = ()
        self._end()
        self._pending.clear()
        raise ProcessEnded

    def _is_to_fail(self) -> bool:
        """Return whether ``fail_in`` applies to the current write."""
        if self._writes_to_failure is None:
            return False
        self._writes_to_failure -= 1
        if self._writes_to_failure:
            return False
        self._writes_to_failure = None
        return True


def _changes(transactions: Sequence[Transaction]) -> list[Change]:
    return [change for transaction in transactions for change in transaction.changes]
