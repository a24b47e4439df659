"""Group commit: one thread that takes all that is pending, writes and syncs it once, reports once, and goes on.

It clocks itself: while one group is on its way to the disk, the next one gathers. The event loop's thread only puts
into a queue. After a full disk the thread waits until the loop has taken back what was appended behind the failed
group, so that no ledger gets a hole.
"""

from __future__ import annotations

import contextlib
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.ledger.shared_log.log import Operation

    Commit = Callable[[Sequence[Operation]], None]
    Report = Callable[[Sequence[Operation], StorageError | None], None]


class Committer:
    """Feeds a log from another thread. Every method but the thread's own is called on the event loop's thread."""

    def __init__(self, commit: Commit, group_bytes: int, report: Report, after_group: Callable[[], None]) -> None:
        """Commit in groups that are closed once they exceed ``group_bytes``.

        ``commit`` is ``Log.commit``, or calls it. ``report`` is called on the committing thread, once per group and in
        order; ``after_group`` behind it.
        """
        self._commit = commit
        self._group_bytes = group_bytes
        self._report = report
        self._after_group = after_group
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
        """Go on after a group that failed with DiskFullError."""
        self._resumed.release()

    def stop(self) -> None:
        """Let the thread end once nothing is pending."""
        self._stopping = True
        self._pending.put(None)

    def join(self) -> None:
        """Wait for the end of the thread; called on any thread but the loop's, which the last reports need."""
        self._thread.join()

    def _run(self) -> None:
        while True:
            group = self._take()
            if group is None:
                return
            try:
                self._commit(group)
            except DiskFullError as error:
                self._report(group, error)
                self._resumed.acquire()
            except StorageError as error:
                self._report(group, error)
                return
            except Exception as error:  # noqa: BLE001 - the thread's root: who waits must learn that nothing comes
                self._report(group, StorageError(f"the log failed: {error!r}"))
                return
            else:
                self._report(group, None)
                self._after_group()

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
                size += operation.size
        return group or None
