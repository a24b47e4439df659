"""The shared log of all ledgers: commits groups of operations to segments. Synchronous; used by one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.ledger.segments.record import HEADER_SIZE, Body, Kind, RunHead, body_of, encode_control, encode_run
from magnetar.ledger.segments.recovery import recover
from magnetar.ledger.segments.segment import SegmentWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from magnetar.base.world import Files
    from magnetar.ledger.segments.index import LogIndex
    from magnetar.ledger.segments.recovery import Progress
    from magnetar.ledger.store import OnDurable


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


class Log:
    """Segments, and the index of what they durably hold."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        segment_bytes: int,
        progress: Progress = lambda _done, _total: None,
        *,
        sync: bool,
    ) -> None:
        """Recover the log in ``directory``; raises CorruptionError where it is damaged.

        A segment is sealed before a group would make it exceed ``segment_bytes``; a larger group has one for itself.
        Without ``sync`` a group of RUNs is not synced: the newest of them may be lost with the power, though a killed
        process loses nothing. A group with any other record is synced all the same: ids that were reserved are never
        given again, and a segment that a TRIM or DELETE made superfluous is never removed before that is durable.
        """
        found, self._writer = recover(files, directory, progress, room=segment_bytes)
        self.index: LogIndex = found.index
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._sync = sync
        self._next_sequence = found.last_sequence + 1
        self._previous = found.previous

    def commit(self, operations: Sequence[Operation]) -> None:
        """Make the operations durable, with one write and one sync.

        Raises DiskFullError with nothing of them done, or StorageError, after which the log must not be used.
        """
        written = [(operation, operation.kind) for operation in operations if operation.kind is not None]
        if not written:
            return
        sizes = [HEADER_SIZE + operation.body.size for operation, _ in written]
        writer = self._writer_for(sum(sizes))
        offsets = writer.write([(kind, operation.body) for operation, kind in written])
        if self._sync or any(kind is not Kind.RUN for _, kind in written):
            writer.sync()
        for (operation, kind), offset, size in zip(written, offsets, sizes, strict=True):
            if kind is Kind.RUN:
                self._apply_run(operation, writer.sequence, offset, size)
            else:
                self.index.apply_control(kind, b"".join(operation.body.parts))

    def close(self, next_ledger_id: int) -> None:
        """Seal the newest segment, so that opening needs no walk; ids below ``next_ledger_id`` have been given."""
        self.index.next_ledger_id = next_ledger_id
        if self._writer is not None:
            self._seal(self._writer)

    def abandon(self) -> None:
        """Release the newest segment as it is."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _apply_run(self, operation: Operation, segment: int, offset: int, size: int) -> None:
        head = RunHead(
            operation.ledger_id, operation.argument, len(operation.entries), operation.annotation, operation.size
        )
        self.index.apply_run(segment, head, offset, size)

    def _writer_for(self, size: int) -> SegmentWriter:
        writer = self._writer
        if writer is not None and writer.size + size > self._segment_bytes and writer.has_records:
            self._seal(writer)
            writer = None
        if writer is None:
            writer = SegmentWriter.create(
                self._files, self._directory, self._next_sequence, self._previous, self._segment_bytes
            )
            self.index.segments[writer.sequence] = {}
            self._writer = writer
            self._next_sequence += 1
        return writer

    def _seal(self, writer: SegmentWriter) -> None:
        extents = self.index.segments[writer.sequence]
        tables = [extent.table.encode(ledger_id) for ledger_id, extent in extents.items() if extent.table]
        offsets = writer.write([(Kind.INDEX, body_of(table)) for table in tables])
        writer.sync()  # the footer vouches for everything before it, so it must not reach the disk alone
        places = [(offset, HEADER_SIZE + len(table)) for offset, table in zip(offsets, tables, strict=True)]
        footer = self.index.footer(writer.sequence, places)
        writer.write([(Kind.FOOTER, body_of(footer.encode(writer.size)))])
        writer.give_back_room()
        writer.sync()
        writer.close()
        self._writer = None
        self._previous = writer.previous
        self.index.mark_sealed(writer.sequence, footer)
