"""The shared log of all ledgers: commits groups of operations to the segments of a medium. Used by one thread."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import StorageError
from magnetar.base.histogram import Histogram
from magnetar.ledger.segments.record import HEADER_SIZE, Body, Kind, RunHead, body_of, encode_control, encode_run
from magnetar.ledger.segments.recovery import recover
from magnetar.ledger.segments.segment import SegmentEnd, encode_records, make_segment_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.ledger.medium.interface import OpenSegment, SegmentMedium
    from magnetar.ledger.segments.index import LogIndex
    from magnetar.ledger.segments.recovery import Progress
    from magnetar.ledger.store import OnDurable

    Report = Callable[[Sequence["Operation"], StorageError | None], None]


class Operation(NamedTuple):
    """One thing that was asked of the log; ``kind`` is None for a barrier."""

    kind: Kind | None
    ledger_id: int
    argument: int
    """The first entry id of a RUN, the bound of a TRIM."""
    entries: Sequence[bytes]
    size: int
    """Bytes of the entries."""
    annotation: bytes
    body: Body
    """Of its record; made by who asks, while the disk is busy with what was asked before."""
    on_durable: OnDurable | None
    urgent: bool = False
    """Whether a RUN goes on in the room that is held back for a full disk."""

    @property
    def is_control(self) -> bool:
        """Whether it changes ledgers without adding entries; then it must not be dropped when space runs out."""
        return self.kind is not None and self.kind is not Kind.RUN


def with_entries(
    ledger_id: int, first: int, entries: Sequence[bytes], annotation: bytes, on_durable: OnDurable, *, urgent: bool
) -> Operation:
    """Make the operation that appends a run."""
    body = encode_run(ledger_id, first, entries, annotation)
    return Operation(Kind.RUN, ledger_id, first, entries, sum(map(len, entries)), annotation, body, on_durable, urgent)


def without_entries(
    kind: Kind | None, ledger_id: int = 0, argument: int = 0, on_durable: OnDurable | None = None
) -> Operation:
    """Make a control operation or a barrier."""
    return Operation(kind, ledger_id, argument, (), 0, b"", body_of(encode_control(ledger_id, argument)), on_durable)


class _Group(NamedTuple):
    """Operations that are on their way to the medium together."""

    operations: Sequence[Operation]
    written: list[tuple[Operation, Kind]]
    """Those that have a record."""
    offsets: list[int]
    """Of the records."""
    sizes: list[int]
    """Of the records."""
    end: SegmentEnd
    """Where the segment ends behind the group."""
    sync: bool
    begun_at: float


class Log:
    """Segments, and the index of what they durably hold. See GroupListener.

    ``report`` tells of each operation that was committed, once and in the order of the commits. A failure is told
    once, with all operations that it concerns.
    """

    def __init__(
        self, medium: SegmentMedium, segment_bytes: int, clock: Callable[[], float] = lambda: 0.0, *, sync: bool
    ) -> None:
        """Use ``open``.

        A segment is sealed before a group would make it exceed ``segment_bytes``; a larger group has one for itself.
        Without ``sync`` a group of RUNs is not synced: the newest of them may be lost with the power, though a killed
        process loses nothing. A group with any other record is synced all the same: ids that were reserved are never
        given again, and a segment that a TRIM or DELETE made superfluous is never removed before that is durable.
        """
        self.commit_times = Histogram()
        """How long groups took to become durable, or to fail, by ``clock``."""
        self.report: Report = lambda _operations, _error: None
        self._medium = medium
        self._segment_bytes = segment_bytes
        self._clock = clock
        self._sync = sync
        self._in_flight: deque[_Group] = deque()
        """Groups that were handed to the medium and are not acknowledged, oldest first."""
        self._waiting: Sequence[Operation] | None = None
        """What the next segment is being made for."""

    async def open(self, progress: Progress = lambda _done, _total: None) -> None:
        """Recover the log; raises CorruptionError where it is damaged, StorageError if it cannot be read or written."""
        found, self._segment = await recover(self._medium, self, progress)
        self.index: LogIndex = found.index
        self._next_sequence = found.last_sequence + 1
        size = found.tail.end if found.tail is not None else 0
        self._end = self._durable_end = SegmentEnd(found.last_sequence, size, found.previous)
        """Where the segment ends: with the groups in flight, and without them."""
        self._synced = size
        """Bytes of the segment that are synced."""

    def commit_now(self, operations: Sequence[Operation]) -> bool:
        """As ``commit``, but do nothing and return False if the next segment has to be begun first."""
        return self._commit(operations, self._clock())

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Hand operations to the medium as one group; ``report`` tells what becomes of them, maybe before the return.

        Not to be called again before it has returned, nor after a failure before whoever is told allows it: with an
        error that is a StorageShortageError, nothing of the failed operations is done; after any other error, never.
        """
        begun_at = self._clock()
        if not self._commit(operations, begun_at) and await self._make_room(operations, begun_at):
            self._commit(operations, begun_at)

    def acknowledged(self) -> None:
        """See GroupListener."""
        operations, written, offsets, sizes, end, is_synced, begun_at = self._in_flight.popleft()
        segment, self._durable_end = end.sequence, end
        if is_synced:
            self._synced = end.size
        for (operation, kind), offset, size in zip(written, offsets, sizes, strict=True):
            if kind is Kind.RUN:
                self._apply_run(operation, segment, offset, size)
            else:
                self.index.apply_control(kind, b"".join(operation.body.parts))
        self.commit_times.observe(self._clock() - begun_at)
        self.report(operations, None)

    def failed(self, error: StorageError) -> None:
        """See GroupListener."""
        operations = [operation for group in self._in_flight for operation in group.operations]
        operations += self._waiting or ()
        begun_at = self._in_flight[0].begun_at
        self._in_flight.clear()
        self._waiting = None
        self._end = self._durable_end
        self._fail(operations, begun_at, error)

    async def commit_alone(self, operations: Sequence[Operation]) -> None:
        """Commit operations while nothing else is, and return when they are durable; raises why they never will be."""
        outcome: list[StorageError | None] = []
        self.report = lambda _operations, error: outcome.append(error)
        await self.commit(operations)
        if self._segment is not None:
            await self._segment.settled()
        if outcome[0] is not None:
            raise outcome[0]

    async def remove_dead_segments(self) -> None:
        """Give the space of segments back that nobody needs; called after groups were reported."""
        for segment in self.index.take_dead_segments():
            del self.index.segments[segment]
            with suppress(StorageError):  # the segment is found dead again when the log is next opened
                await self._medium.remove(segment)

    async def close(self, next_ledger_id: int) -> None:
        """Seal the newest segment, so that opening needs no walk; ids below ``next_ledger_id`` have been given."""
        self.index.next_ledger_id = next_ledger_id
        if self._segment is not None:
            await self._seal(self._segment)

    async def abandon(self) -> None:
        """Let go of the newest segment as it is."""
        if self._segment is not None:
            await self._segment.close()
            self._segment = None

    def _commit(self, operations: Sequence[Operation], begun_at: float) -> bool:
        """Hand operations to the medium if the newest segment has room for them; whether it has."""
        written = [(operation, operation.kind) for operation in operations if operation.kind is not None]
        if not written:
            self._pass(operations, begun_at)
            return True
        end, segment = self._end, self._segment
        sizes = [HEADER_SIZE + operation.body.size for operation, _ in written]
        if segment is None or (end.size + sum(sizes) > self._segment_bytes and end.has_records):
            return False
        records = [(kind, operation.body) for operation, kind in written]
        parts, offsets, end = encode_records(records, end, self._synced)
        sync = self._sync or any(kind is not Kind.RUN for _, kind in written)
        self._end = end
        self._in_flight.append(_Group(operations, written, offsets, sizes, end, sync, begun_at))
        segment.append(parts, sync=sync)
        return True

    def _pass(self, operations: Sequence[Operation], begun_at: float) -> None:
        """Report operations without a record, behind all that was committed before."""
        if self._in_flight:
            last = self._in_flight.pop()
            self._in_flight.append(last._replace(operations=[*last.operations, *operations]))
        else:
            self.commit_times.observe(self._clock() - begun_at)
            self.report(operations, None)

    def _fail(self, operations: Sequence[Operation], begun_at: float, error: StorageError) -> None:
        self.commit_times.observe(self._clock() - begun_at)
        self.report(operations, error)

    def _apply_run(self, operation: Operation, segment: int, offset: int, size: int) -> None:
        head = RunHead(
            operation.ledger_id, operation.argument, len(operation.entries), operation.annotation, operation.size
        )
        self.index.apply_run(segment, head, offset, size)

    async def _make_room(self, operations: Sequence[Operation], begun_at: float) -> bool:
        """Begin the next segment for operations; if that or a group in flight fails, report it and return False."""
        self._waiting = operations
        try:
            if self._segment is not None:
                await self._segment.settled()
                if self._waiting is None:
                    return False
                await self._seal(self._segment)
            await self._begin_segment()
        except StorageError as error:
            self._fail(operations, begun_at, error)
            return False
        finally:
            self._waiting = None
        return True

    async def _begin_segment(self) -> None:
        header = make_segment_header(self._next_sequence, self._end.previous)
        head = header.encode()
        self._segment = await self._medium.create(header.sequence, head, self)
        self._end = self._durable_end = SegmentEnd(header.sequence, len(head), header.crc)
        self._synced = len(head)
        self.index.segments[header.sequence] = {}
        self._next_sequence += 1

    async def _seal(self, segment: OpenSegment) -> None:
        end = self._end
        extents = self.index.segments[end.sequence]
        tables = [extent.table.encode(ledger_id) for ledger_id, extent in extents.items() if extent.table]
        before, offsets, before_end = encode_records(
            [(Kind.INDEX, body_of(table)) for table in tables], end, self._synced
        )
        places = [(offset, HEADER_SIZE + len(table)) for offset, table in zip(offsets, tables, strict=True)]
        footer = self.index.footer(end.sequence, places)
        footer_at = before_end.size  # everything in front of it is synced first
        footer_record = (Kind.FOOTER, body_of(footer.encode(footer_at)))
        last, _, last_end = encode_records([footer_record], before_end, footer_at)
        await segment.seal(before, last)
        self._segment, self._end = None, last_end
        self.index.mark_sealed(end.sequence, footer)
