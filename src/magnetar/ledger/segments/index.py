"""What the log durably holds: which ledgers exist, and in which segments their entries lie.

Changed by one thread, which writes the log; other threads read. They rely on three things: tables and lists only grow
at their end or are replaced whole, a table's columns are complete before its entry shows, and an extent knows its INDEX
before it lets go of its table.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.ledger.segments.record import ExtentLine, Footer, Kind, LedgerLine, RunHead, Table, decode_control

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Extent:
    """What a ledger has in one segment: the entries ``first`` up to, not including, ``end``."""

    segment: int
    first: int
    end: int
    entries_bytes: int = 0
    index_offset: int = 0
    index_size: int = 0
    table: Table | None = None
    """The runs, while the segment is not sealed; afterwards they are in the INDEX record."""

    def forget_runs_before(self, entry_id: int) -> None:
        """Let go of the runs that end below ``entry_id``; their bytes stay in the segment, and in ``entries_bytes``."""
        if self.table is not None and self.table.counts[0] <= entry_id - self.table.firsts[0]:
            self.table = self.table.suffix_with(entry_id)
            self.first = self.table.firsts[0]


@dataclass(slots=True)
class LedgerIndex:
    """A ledger as the log knows it."""

    ledger_id: int
    trimmed_before: int = 0
    length: int = 0
    sealed: bool = False
    extents: list[Extent] = field(default_factory=list)

    @property
    def entries_bytes(self) -> int:
        """Bytes of the entries that still take space."""
        return sum(extent.entries_bytes for extent in self.extents)

    def extents_from(self, entry_id: int) -> list[Extent]:
        """Return the extents that hold ``entry_id`` or entries above it, in order."""
        extents = self.extents
        start = bisect_right(extents, entry_id, key=lambda extent: extent.end)
        return extents[start:]

    def find_gap(self) -> tuple[int, int] | None:
        """Return the first range [first, end) of entries that should be held and are not; None if all are."""
        expected = self.trimmed_before
        for extent in self.extents:
            if extent.first > expected:
                return expected, extent.first
            expected = max(expected, extent.end)
        return (expected, self.length) if expected < self.length else None


class LogIndex:
    """All ledgers, all segments, and which of the latter nobody needs any more."""

    def __init__(self) -> None:
        """Start with an empty log that never gave a ledger an id."""
        self.next_ledger_id = 1
        """Every id below may have been given to a ledger."""
        self.ledgers: dict[int, LedgerIndex] = {}
        self.segments: dict[int, dict[int, Extent]] = {}
        """Sequence of the segment -> ledger id -> what that ledger keeps in it; ascending."""
        self.newest_sealed: int | None = None
        """Its footer is the state that the unsealed segment continues from, so it stays whatever it holds."""
        self._changed = True
        """Whether a segment may have died since ``take_dead_segments`` was last called."""

    @property
    def is_unborn(self) -> bool:
        """Whether no id was ever given, nor reserved."""
        return self.next_ledger_id == 1

    def apply_run(self, segment: int, head: RunHead, offset: int, size: int) -> None:
        """Note a durable RUN; raises StorageError if it does not continue its ledger."""
        ledger = self._ledger(head.ledger_id)
        if head.first_entry_id != ledger.length or ledger.sealed:
            what = "sealed" if ledger.sealed else "not at its end"
            message = f"run at entry {head.first_entry_id} of ledger {head.ledger_id}, {what}: length {ledger.length}"
            raise StorageError(message)
        extents = self.segments[segment]
        extent = extents.get(head.ledger_id)
        if extent is None or extent.table is None:
            extent = Extent(segment, head.first_entry_id, head.first_entry_id, table=Table())
            extents[head.ledger_id] = extent
            ledger.extents.append(extent)
        assert extent.table is not None
        extent.table.append(head, offset, size)
        extent.entries_bytes += head.entries_bytes
        ledger.length = extent.end = head.first_entry_id + head.entries

    def apply_control(self, kind: Kind, body: bytes) -> None:
        """Note a durable SEAL, DELETE, TRIM or RESERVE."""
        ledger_id, argument = decode_control(body)
        if kind is Kind.RESERVE:
            self.next_ledger_id = max(self.next_ledger_id, ledger_id)
        elif kind is Kind.DELETE:
            ledger = self.ledgers.pop(ledger_id, None)
            self._release(ledger_id, ledger.extents if ledger else ())
        elif kind is Kind.SEAL:
            self._ledger(ledger_id).sealed = True
        else:
            assert kind is Kind.TRIM, kind
            self._trim(ledger_id, argument)

    def footer(self, segment: int, index_places: Iterable[tuple[int, int]]) -> Footer:
        """Describe the end of ``segment``, whose INDEX records lie at these (offset, size), in order of its extents."""
        ledgers = sorted(self.ledgers.values(), key=lambda ledger: ledger.ledger_id)
        return Footer(
            self.next_ledger_id,
            tuple(LedgerLine(each.ledger_id, each.trimmed_before, each.length, each.sealed) for each in ledgers),
            tuple(
                ExtentLine(ledger_id, extent.first, extent.end, extent.entries_bytes, *place)
                for (ledger_id, extent), place in zip(self.segments[segment].items(), index_places, strict=True)
            ),
        )

    def mark_sealed(self, segment: int, footer: Footer) -> None:
        """Note that ``segment`` ends with ``footer``, durably: its tables need no memory any more."""
        extents = self.segments[segment]
        for line in footer.extents:
            extent = extents[line.ledger_id]
            extent.index_offset, extent.index_size = line.index_offset, line.index_size
            extent.table = None
        self.newest_sealed = segment
        self._changed = True

    @property
    def may_have_dead_segments(self) -> bool:
        """Whether it is worth asking ``take_dead_segments``."""
        return self._changed and self.newest_sealed is not None

    def take_dead_segments(self) -> list[int]:
        """Return the segments that are sealed and that no ledger needs; none if nothing changed since the last call.

        Asked after every group of commits, when mostly nothing has.
        """
        if self.newest_sealed is None or not self._changed:
            return []
        self._changed = False
        return [each for each, extents in self.segments.items() if not extents and each < self.newest_sealed]

    def _ledger(self, ledger_id: int) -> LedgerIndex:
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            ledger = self.ledgers[ledger_id] = LedgerIndex(ledger_id)
        return ledger

    def _trim(self, ledger_id: int, before_entry_id: int) -> None:
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            return
        ledger.trimmed_before = max(ledger.trimmed_before, min(before_entry_id, ledger.length))
        kept = ledger.extents_from(ledger.trimmed_before)
        self._release(ledger_id, ledger.extents[: len(ledger.extents) - len(kept)])
        ledger.extents = kept
        if kept:
            kept[0].forget_runs_before(ledger.trimmed_before)

    def _release(self, ledger_id: int, extents: Iterable[Extent]) -> None:
        for extent in extents:
            del self.segments[extent.segment][ledger_id]
            self._changed = True
