"""A metadata store whose writes fail, or end the process, while the broker goes on to use it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.metadata.memory import MemoryMetadataStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from magnetar.base.world import Clock
    from magnetar.metadata.store import Put, Versioned
    from magnetar.sim.virtual.disk import FaultyDisk


class ProcessEnded(BaseException):
    """The process is gone: no ``except Exception`` may see it, as no code runs after a SIGKILL."""


class FaultyMetadataStore(MemoryMetadataStore):
    """See MetadataStore; faults are switched on and off by its attributes and methods.

    With a disk it fails as the disk does. It promises what ``LocalMetadataStore`` does: every write is synced before it
    returns, so that a loss of power takes none. A write whose sync failed has no effect while the process runs, unless
    the process ends before the next write: the next process may find it (ADR 12).
    """

    def __init__(
        self,
        clock: Clock,
        disk: Callable[[], FaultyDisk] | None = None,
        waits: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """An empty store without faults, on ``disk`` if there is one; ``waits`` lets the process do nothing."""
        super().__init__(clock)
        self._clock = clock
        self._disk = disk
        self._waits = waits
        self.commit_s = 0.0
        """Virtual seconds that each write takes, in which the broker does nothing else."""
        self.in_doubt: Callable[[MemoryMetadataStore], object] | None = None
        """The newest write, if its sync failed."""
        self.found: Callable[[MemoryMetadataStore], object] | None = None
        """What was ``in_doubt`` in the process before, if this one found it."""
        self.fail_writes = False
        """Whether every write raises DiskFullError and changes nothing."""
        self.failed_writes = 0
        """How many writes have failed."""
        self._writes_to_failure: int | None = None
        self._damaged: dict[str, tuple[Versioned, Versioned]] = {}
        """By path, what was written, and what is there since it was damaged."""
        self._writes_left: int | None = None
        self._is_last_written = False
        self._end: Callable[[], None] = lambda: None

    def end_process_in(self, writes: int, end: Callable[[], None], *, is_written: bool) -> None:
        """Call ``end`` at the given write from now on (1: the next one), and raise ProcessEnded out of that write.

        ``is_written`` says whether that write is durable. ``end`` must replace the store by ``reopened``.
        """
        assert writes > 0, "a write that is over cannot end the process"
        self._writes_left, self._end, self._is_last_written = writes, end, is_written

    def fail_in(self, writes: int) -> None:
        """Let one write fail, the given one from now on (1: the next one)."""
        assert writes > 0, "a write that is over cannot fail"
        self._writes_to_failure = writes

    def disarm(self) -> None:
        """Let no write end the process, or fail alone, any more."""
        self._writes_left = self._writes_to_failure = None

    def reopened(self, *, with_doubtful: bool = False) -> FaultyMetadataStore:
        """What the next process finds: the same entries, watched by nobody, without faults.

        ``with_doubtful``: also a write whose sync failed, if no other followed.
        """
        store = FaultyMetadataStore(self._clock, self._disk, self._waits)
        store._entries, store._damaged = self._entries, self._damaged
        if with_doubtful and self.in_doubt is not None:
            store._entries, store.found = self._entries_after(self.in_doubt), self.in_doubt
        return store

    def _entries_after(self, write: Callable[[MemoryMetadataStore], object]) -> dict[str, Versioned]:
        """Return what there would be after a write, which nobody hears of; raises as the write does."""
        trial = MemoryMetadataStore(self._clock)
        trial._entries = self._entries  # noqa: SLF001 - nobody else has it
        write(trial)
        return trial._entries  # noqa: SLF001

    def damage(self, path: str, chance: Random) -> bool:
        """Lose the end of what is stored at ``path``, until ``restore``; False where there is nothing to lose."""
        stored = self.get(path)
        if stored is None or len(stored.value) < 2:
            return False
        broken = replace(stored, value=stored.value[: chance.randint(1, len(stored.value) - 1)])
        self._damaged[path] = stored, broken
        self._entries = {**self._entries, path: broken}
        return True

    def restore(self, path: str) -> bool:
        """Put back what ``damage`` took; False if it was written or deleted in the meantime."""
        stored, broken = self._damaged.pop(path, (None, None))
        if stored is None or self.get(path) is not broken:
            return False
        self._entries = {**self._entries, path: stored}
        return True

    def written(self, path: str) -> Versioned | None:
        """As ``get``, and what was written where it is damaged now."""
        found = self.get(path)
        stored, broken = self._damaged.get(path, (None, None))
        return stored if found is not None and found is broken else found

    def put_many(self, puts: Sequence[Put]) -> list[int]:
        """See MetadataStore."""
        size = sum(len(put.path) + len(put.value) for put in puts)
        self._before_write(lambda store: store.put_many(puts), size)
        return super().put_many(puts)

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """See MetadataStore."""
        self._before_write(lambda store: store.delete(path, expected_version), len(path))
        super().delete(path, expected_version)

    def _before_write(self, write: Callable[[MemoryMetadataStore], object], size: int) -> None:
        if self.commit_s:
            self._waits(self.commit_s)
        if self.fail_writes or self._is_to_fail():
            self.failed_writes += 1
            message = "metadata store: database or disk is full"
            raise DiskFullError(message)
        if self._disk is not None:
            self._write_to(self._disk(), write, size)
        self.in_doubt = None
        if self._writes_left is None:
            return
        self._writes_left -= 1
        if self._writes_left:
            return
        if self._is_last_written:
            store = self.reopened()  # nobody may hear of this write any more
            write(store)
            self._entries = store._entries  # noqa: SLF001 - the two are one store
        self._writes_left = None
        self._end()
        raise ProcessEnded

    def _write_to(self, disk: FaultyDisk, write: Callable[[MemoryMetadataStore], object], size: int) -> None:
        """Take room of the disk, and sync; raises as SQLite's errors are raised."""
        is_full = disk.room is not None and disk.room < size
        fails = not is_full and disk.takes_no_sync()
        if not is_full and not fails:
            disk.take_room(size)
            return
        self._entries_after(write)  # one that is refused for its version gets no further
        self.failed_writes += 1
        if is_full:
            message = "metadata store: database or disk is full"
            raise DiskFullError(message)
        self.in_doubt = write
        message = "metadata store: disk I/O error"
        raise StorageError(message)

    def _is_to_fail(self) -> bool:
        """Whether the write that begins now is the one that was to fail alone."""
        if self._writes_to_failure is None:
            return False
        self._writes_to_failure -= 1
        if self._writes_to_failure:
            return False
        self._writes_to_failure = None
        return True
