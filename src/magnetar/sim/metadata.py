"""A metadata store whose writes fail, or end the process, while the broker goes on to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError
from magnetar.metadata.memory import MemoryMetadataStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.world import Clock
    from magnetar.metadata.store import Put


class ProcessEnded(BaseException):
    """The process is gone: no ``except Exception`` may see it, as no code runs after a SIGKILL."""


class FaultyMetadataStore(MemoryMetadataStore):
    """See MetadataStore; faults are switched on and off by its attributes and methods."""

    def __init__(self, clock: Clock) -> None:
        """An empty store without faults."""
        super().__init__(clock)
        self._clock = clock
        self.fail_writes = False
        """Whether every write raises DiskFullError and changes nothing."""
        self.failed_writes = 0
        """How many writes have failed."""
        self._writes_to_failure: int | None = None
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

    def reopened(self) -> FaultyMetadataStore:
        """What the next process finds: the same entries, watched by nobody, without faults."""
        store = FaultyMetadataStore(self._clock)
        store._entries = self._entries
        return store

    def put_many(self, puts: Sequence[Put]) -> list[int]:
        """See MetadataStore."""
        self._before_write(lambda store: store.put_many(puts))
        return super().put_many(puts)

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """See MetadataStore."""
        self._before_write(lambda store: store.delete(path, expected_version))
        super().delete(path, expected_version)

    def _before_write(self, write: Callable[[MemoryMetadataStore], object]) -> None:
        if self.fail_writes or self._is_to_fail():
            self.failed_writes += 1
            message = "metadata store: database or disk is full"
            raise DiskFullError(message)
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

    def _is_to_fail(self) -> bool:
        """Whether the write that begins now is the one that was to fail alone."""
        if self._writes_to_failure is None:
            return False
        self._writes_to_failure -= 1
        if self._writes_to_failure:
            return False
        self._writes_to_failure = None
        return True
