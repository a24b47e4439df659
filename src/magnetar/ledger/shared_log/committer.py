"""Group commit: one thread that takes all that is pending, writes and syncs it once, reports once, and goes on.

For a medium that blocks. It clocks itself: while one group is on its way to the disk, the next one gathers. The event
loop's thread only puts into a queue. After a shortage, such as a full disk, the thread waits until the loop has taken
back what was appended behind the failed group, so that no ledger gets a hole.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError, StorageShortageError
from magnetar.ledger.medium.blocking import run_blocking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.ledger.shared_log.log import Log, Operation, Report


class Committer:
    """Feeds a log from another thread. Every method but the thread's own is called on the event loop's thread."""

    def __init__(self, log: Log, group_bytes: int, report: Report) -> None:
        """Commit to ``log`` in groups that are closed once they exceed ``group_bytes``.

        ``report`` is told what the log reports, on the committing thread.
        """
        log.report = self._reported
        self._log = log
        self._group_bytes = group_bytes
        self._report = report
        self._failure: StorageError | None = None
        """What the group failed with that was committed last."""
        self._pending: SimpleQueue[Operation | None] = SimpleQueue()
        """What is to be committed; None only wakes the thread."""
        self._resumed = threading.Semaphore(0)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="magnetar-ledger", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, operation: Operation) -> None:
        """Queue an operation."""
        self._pending.put(operation)

    def take_back(self) -> list[Operation]:
        """Return what is queued and forget it; only while a failed group waits for ``resume``, or after the end."""
        taken = []
        with contextlib.suppress(Empty):
            while True:
                taken.append(self._pending.get_nowait())
        return [operation for operation in taken if operation is not None]

    def resume(self) -> None:
        """Go on after a group that failed with StorageShortageError."""
        self._resumed.release()

    async def end(self) -> None:
        """Return when nothing is pending and all was reported, and the thread has ended."""
        self._stopping = True
        self._pending.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        log = self._log
        while True:
            group = self._take()
            if group is None:
                return
            try:
                if not log.commit_now(group):
                    run_blocking(log.commit, group)
            except Exception as error:  # noqa: BLE001 - the thread's root: who waits must learn that nothing comes
                self._report(group, StorageError(f"the log failed: {error!r}"))
                return
            failure, self._failure = self._failure, None
            if failure is None:
                if log.index.may_have_dead_segments:
                    run_blocking(log.remove_dead_segments)
            elif isinstance(failure, StorageShortageError):
                self._resumed.acquire()
            else:
                return

    def _reported(self, operations: Sequence[Operation], error: StorageError | None) -> None:
        self._failure = error
        self._report(operations, error)

    def _take(self) -> list[Operation] | None:
        """Wait for work and return a group of it; None when there is none left and no more will come."""
        group: list[Operation] = []
        size = 0
        while size <= self._group_bytes:
            if self._pending.empty() and (group or self._stopping):
                break
            operation = self._pending.get()
            if operation is not None:
                group.append(operation)
                size += operation.body.size  # a record of a cursor has no bytes of entries
        return group or None
