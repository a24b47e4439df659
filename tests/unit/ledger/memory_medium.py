"""A non-blocking medium in memory with several groups in flight, whose results the test determines."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.errors import SegmentRemovedError, StorageError, StorageShortageError, StoreFencedError
from magnetar.ledger.shared_log.committer import Committer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from magnetar.ledger.medium.interface import GroupListener
    from magnetar.ledger.shared_log.log import Log, Operation, Report


@dataclass
class Kept:
    """The state that survives the process of a writer."""

    segments: dict[int, bytes] = field(default_factory=dict)
    notes: dict[str, bytes] = field(default_factory=dict)
    writer: MemoryMedium | None = None
    """The writer that opened the log last; all others are fenced."""


async def turn() -> None:
    """Yield a turn of the event loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future


class MemoryMedium:
    """See SegmentMedium. Groups wait in ``in_flight`` until ``acknowledge`` or ``fail``."""

    blocks = False
    watches_shortage = True

    def __init__(self, kept: Kept, *, prompt: bool = True) -> None:
        """Store segments in ``kept``. A ``prompt`` medium acknowledges each group in a later turn of the event loop."""
        self.kept = kept
        self.prompt = prompt
        self.in_flight: deque[bytes] = deque()
        self.error: StorageError | None = None
        """The error of every write, if set."""
        self.reserve = False
        """Whether space is reserved."""
        self.segment: MemorySegment | None = None
        self.seals_refused = 0
        """Number of refused seals."""

    def acknowledge(self, count: int = 1) -> None:
        """Make the oldest groups durable, unless a fault is set."""
        for _ in range(min(count, len(self.in_flight))):
            error = self.refusal
            if error is not None:
                self.fail(error)
                return
            assert self.segment is not None
            self.kept.segments[self.segment.sequence] += self.in_flight.popleft()
            self.segment.listener.acknowledged()

    def fail(self, error: StorageError) -> None:
        """Fail all groups in flight."""
        assert self.segment is not None
        self.in_flight.clear()
        self.segment.listener.failed(error)

    def crash(self, chance: Random) -> None:
        """End the writer: some of the groups in flight survive, the last of them maybe torn."""
        found = b"".join(self.in_flight)
        if found and self.segment is not None:
            self.kept.segments[self.segment.sequence] += found[: chance.randint(0, len(found))]
        self.kept.writer = None

    @property
    def refusal(self) -> StorageError | None:
        """Return why nothing can be written, if so."""
        if self.kept.writer is not self:
            return StoreFencedError("another writer has the log")
        return self.error

    def name_of(self, found: int | str) -> str:
        """See SegmentMedium."""
        return f"memory {found}"

    async def open(self) -> None:
        """See SegmentMedium."""
        await turn()
        self.kept.writer = self

    async def segments(self) -> list[int]:
        """See SegmentMedium."""
        await turn()
        return sorted(self.kept.segments)

    async def read(self, sequence: int) -> MemoryReader:
        """See SegmentMedium."""
        await turn()
        if sequence not in self.kept.segments:
            message = f"{sequence} was removed"
            raise SegmentRemovedError(message)
        return MemoryReader(self.kept.segments, sequence)

    async def create(self, sequence: int, head: bytes, listener: GroupListener) -> MemorySegment:
        """See SegmentMedium."""
        await self.written()
        return self._continue(sequence, head, listener)

    async def resume(self, sequence: int, kept: bytes, listener: GroupListener) -> MemorySegment:
        """See SegmentMedium."""
        await self.written()
        return self._continue(sequence, kept, listener)

    async def confirm_seal(self, sequence: int, offset: int, last: bytes) -> None:
        """See SegmentMedium."""
        await self.written()
        assert self.kept.segments[sequence][offset:] == last

    async def remove(self, sequence: int) -> None:
        """See SegmentMedium."""
        await self.written()
        del self.kept.segments[sequence]

    async def note(self, name: str) -> bytes | None:
        """See SegmentMedium."""
        return self.kept.notes.get(name)

    async def put_note(self, name: str, content: bytes) -> None:
        """See SegmentMedium."""
        await self.written()
        self.kept.notes[name] = content

    async def remove_note(self, name: str) -> None:
        """See SegmentMedium."""
        await self.written()
        self.kept.notes.pop(name, None)

    def shortage(self, *, is_short: bool) -> StorageShortageError | None:
        """See SegmentMedium."""
        return self.error if isinstance(self.error, StorageShortageError) else None

    def take_reserve(self) -> None:
        """See SegmentMedium."""

    def give_reserve(self) -> bool:
        """See SegmentMedium; urgent data can be written then."""
        given, self.reserve = self.reserve, False
        if given:
            self.error = None
        return given

    async def written(self) -> None:
        """Wait for the next possible write; raises if it is impossible."""
        await turn()
        error = self.refusal
        if error is not None:
            raise error

    def _continue(self, sequence: int, content: bytes, listener: GroupListener) -> MemorySegment:
        self.kept.segments[sequence] = content
        self.segment = MemorySegment(self, sequence, listener)
        return self.segment


class MemorySegment:
    """See OpenSegment."""

    def __init__(self, medium: MemoryMedium, sequence: int, listener: GroupListener) -> None:
        self.sequence = sequence
        self.listener = listener
        self._medium = medium

    def append(self, parts: Sequence[bytes], *, sync: bool) -> None:
        """See OpenSegment."""
        self._medium.in_flight.append(b"".join(parts))
        if self._medium.prompt:
            asyncio.get_running_loop().call_soon(self._medium.acknowledge)

    async def settled(self) -> None:
        """See OpenSegment."""
        while self._medium.in_flight:
            await turn()

    async def seal(self, before: Sequence[bytes], last: Sequence[bytes]) -> None:
        """See OpenSegment."""
        assert not self._medium.in_flight
        try:
            await self._medium.written()
        except StorageError:
            self._medium.seals_refused += 1
            raise
        self._medium.kept.segments[self.sequence] += b"".join([*before, *last])

    async def close(self) -> None:
        """See OpenSegment."""


class MemoryReader:
    """See SegmentReader."""

    def __init__(self, segments: dict[int, bytes], sequence: int) -> None:
        self._segments = segments
        self._sequence = sequence

    async def size(self) -> int:
        """See SegmentReader."""
        await turn()
        return len(self._segments[self._sequence])

    async def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """See SegmentReader."""
        await turn()
        data = self._segments[self._sequence]
        return [data[offset : offset + length] for offset, length in places]

    def close(self) -> None:
        """See SegmentReader."""


class LoopCommitter(Committer):
    """See Committer: without a thread, for a non-blocking medium."""

    def __init__(self, groups_max: int, log: Log, group_bytes: int, report: Report) -> None:
        """Allow up to ``groups_max`` groups in flight."""
        super().__init__(log, group_bytes, report)
        self._groups_max = groups_max
        self._queue: deque[Operation] = deque()
        self._committed = self._told = 0
        """Numbers of committed and of reported operations."""
        self._groups: deque[int] = deque()
        """The number of committed operations at each group in flight."""
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._feed())

    def submit(self, operation: Operation) -> None:
        """See Committer."""
        self._queue.append(operation)
        self._changed.set()

    def take_back(self) -> list[Operation]:
        """See Committer."""
        taken = list(self._queue)
        self._queue.clear()
        return taken

    def resume(self) -> None:
        """See Committer."""
        self._failure = None
        self._changed.set()

    async def end(self) -> None:
        """See Committer."""
        self._stopping = True
        self._changed.set()
        await self._task
        await turn()  # the last report

    async def _feed(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._queue and self._failure is None and len(self._groups) < self._groups_max:
                await self._commit_group()
            if self._failure is None and self._log.index.may_have_dead_segments:
                await self._log.remove_dead_segments()
            is_failed = self._failure is not None and not isinstance(self._failure, StorageShortageError)
            if is_failed or (self._stopping and not self._queue and not self._groups):
                return

    async def _commit_group(self) -> None:
        group: list[Operation] = []
        while self._queue and sum(operation.size for operation in group) <= self._group_bytes:
            group.append(self._queue.popleft())
        self._committed += len(group)
        self._groups.append(self._committed)
        await self._log.commit(group)

    def _reported(self, operations: Sequence[Operation], error: StorageError | None) -> None:
        self._told += len(operations)
        while self._groups and self._groups[0] <= self._told:
            self._groups.popleft()
        super()._reported(operations, error)
        self._changed.set()
