"""What one subscription has acknowledged: the pure state behind a cursor.

Pulsar's model: everything up to and including the mark-delete position is deleted; beyond it single entries
may be deleted; batches may be deleted in part. Mark-delete always moves over deleted entries that follow it
directly, so the entry after it is never deleted.

Positions given here must exist in the log: an acknowledgement of an entry to come would skip it when it comes,
so whoever takes positions from a client checks them against the last confirmed entry first.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import Position
from magnetar.cursor.partials import PartialBatches
from magnetar.cursor.ranges import ENTRY_ID_MAX, DeletedEntries, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyroaring import BitMap


NEWLY_MAX = 10_000
"""Ranges that one acknowledgement names exactly; a million would keep everybody waiting for seconds."""


_LISTED_BYTES = 4
"""Of an entry that a checkpoint lists by itself."""


class PositionSpace(Protocol):
    """Which positions a log has; a managed ledger is one."""

    def next_position(self, position: Position) -> Position:
        """The position after ``position``; it may not hold an entry yet."""
        ...

    def previous_position(self, position: Position) -> Position:
        """The entry before ``position``; before the first entry, a position below it."""
        ...

    def count(self, after: Position, through: Position) -> int:
        """How many entries lie in ``(after, through]``."""
        ...


class CursorState:
    """The acknowledgements of one subscription on one log."""

    __slots__ = ("_deleted", "_partial", "_space", "mark_delete_position")

    def __init__(self, space: PositionSpace, mark_delete_position: Position) -> None:
        """Start with everything up to and including ``mark_delete_position`` deleted, and nothing beyond."""
        self._space = space
        self.mark_delete_position = mark_delete_position
        self._deleted = DeletedEntries()  # only entries beyond mark-delete, never the one directly after it
        self._partial = PartialBatches()  # only entries that are not deleted

    # --- acknowledging ---------------------------------------------------------------------------------------------

    def acknowledge(self, positions: Iterable[Position]) -> list[Range]:
        """Delete single entries; returns those that were not deleted before."""
        return self.acknowledge_ranges(Range(position, position) for position in positions)

    def acknowledge_ranges(self, ranges: Iterable[Range]) -> list[Range]:
        """Delete ranges of entries; returns the parts that were not deleted before."""
        newly: list[Range] = []
        deleted, partial = self._deleted, self._partial
        for first, last in ranges:
            mark = self.mark_delete_position
            if last <= mark:
                continue
            start = first if first > mark else Position(first.ledger_id, mark.entry_id + 1)
            if not deleted and start == (mark.ledger_id, mark.entry_id + 1):
                self.mark_delete_position = last  # in order, nothing beyond: by far the most frequent case
                newly.append(Range(start, last))
            elif start != last:
                newly += deleted.add_range(Range(start, last))
            elif deleted.add(last):
                newly.append(Range(last, last))
            if partial:
                partial.discard(Position(start.ledger_id, start.entry_id - 1), last)
        if deleted:
            self._advance()
        return newly

    def acknowledge_cumulative(self, position: Position) -> list[Range]:
        """Delete everything up to and including ``position``; returns what was not deleted before, ascending.

        Where that is more than NEWLY_MAX ranges, the few stretches are returned that it lies in, one for each ledger.
        """
        if position <= self.mark_delete_position:
            return []
        stretches = self._stretches_through(position)
        gaps = (gap for wanted in stretches for gap in self._deleted.absent(wanted))
        newly = list(islice(gaps, NEWLY_MAX + 1))
        self.advance_mark_delete(position)
        return newly if len(newly) <= NEWLY_MAX else stretches

    def acknowledge_batch(self, position: Position, remaining: int, batch_size: int | None = None) -> list[Range]:
        """Delete the messages of a batch whose bit in ``remaining`` is 0.

        ``batch_size`` is the number of messages in the entry; None when ``remaining`` comes from another state, whose
        bits are known to lie within the batch. Returns the entry when this deleted the last of its messages.
        """
        if self.is_deleted(position):
            return []
        if batch_size is not None:
            every = (1 << batch_size) - 1
            remaining &= every
            if remaining == every:
                return []
        if self._partial.narrow(position, remaining) != 0:
            return []
        return self.acknowledge((position,))

    def advance_mark_delete(self, position: Position) -> None:
        """Move mark-delete to ``position`` or, over deleted entries, beyond; never back."""
        if position <= self.mark_delete_position:
            return
        if self._deleted:
            if position.entry_id >= 0:
                self._deleted.add(position)
                position = self._deleted.run_end(position)
            self._deleted.discard_through(position)
        self._partial.discard(self.mark_delete_position, position)
        self.mark_delete_position = position
        self._advance()

    def reset(
        self,
        mark_delete: Position,
        deleted: Iterable[Range] = (),
        partial: Iterable[tuple[Position, int]] = (),
    ) -> None:
        """Forget everything and start again: a seek, or a state rebuilt by its owner.

        Mark-delete becomes ``mark_delete`` or, where ``deleted`` follows it directly, what lies beyond. ``partial``
        holds positions with their remaining bits.
        """
        self.restore(mark_delete, DeletedEntries.of_ranges(deleted), partial)

    def restore(
        self, mark_delete: Position, deleted: DeletedEntries, partial: Iterable[tuple[Position, int]] = ()
    ) -> None:
        """See ``reset``; ``deleted`` belongs to the state from now on."""
        self.mark_delete_position = mark_delete
        deleted.discard_through(mark_delete)
        self._deleted = deleted
        self._partial.clear()
        self._advance()
        for position, remaining in partial:
            self.acknowledge_batch(position, remaining)

    def _advance(self) -> None:
        """Move mark-delete over the deleted entries that follow it directly."""
        deleted, mark = self._deleted, self.mark_delete_position
        while deleted:
            following = Position(mark.ledger_id, mark.entry_id + 1)
            if following not in deleted:
                if deleted.first_ledger_id == mark.ledger_id:
                    break  # mark-delete is not at the end of its ledger, and its next entry is not deleted
                following = self._space.next_position(mark)
                if following not in deleted:
                    break
            mark = deleted.run_end(following)
            deleted.discard_through(mark)
        self.mark_delete_position = mark

    def _stretches_through(self, position: Position) -> list[Range]:
        """The entries after mark-delete up to and including ``position``, ledger by ledger, ascending."""
        mark, stretches = self.mark_delete_position, []
        while position > mark:
            ledger_id, entry_id = position
            start = mark.entry_id + 1 if ledger_id == mark.ledger_id else 0
            if entry_id >= start:
                stretches.append(Range(Position(ledger_id, start), position))
            before = self._space.previous_position(Position(ledger_id, 0))
            if before >= position:
                break  # nothing before the first ledger
            position = before
        return stretches[::-1]

    # --- asking ----------------------------------------------------------------------------------------------------

    def is_deleted(self, position: Position) -> bool:
        """Whether the whole entry is acknowledged."""
        return position <= self.mark_delete_position or position in self._deleted

    def remaining(self, position: Position) -> int | None:
        """The bits of the messages not yet acknowledged in a partly acknowledged batch; None for any other entry."""
        return self._partial.get(position)

    def partial_batches(self) -> Iterator[tuple[Position, int]]:
        """The partly acknowledged entries and their remaining bits, ascending."""
        return iter(self._partial)

    def partial_batches_in(self, lower: Position, upper: Position) -> list[tuple[Position, int]]:
        """The partly acknowledged entries in ``(lower, upper]`` and their remaining bits, ascending."""
        return self._partial.between(lower, upper)

    def deleted(self) -> Iterator[Range]:
        """The ranges deleted beyond mark-delete, ascending."""
        return iter(self._deleted)

    @property
    def individually_deleted(self) -> DeletedEntries:
        """The entries deleted beyond mark-delete, not to be changed and good until the next change of the state."""
        return self._deleted

    def deleted_ranges(self) -> list[tuple[Position, Position]]:
        """The ranges deleted beyond mark-delete as Pulsar shows them: open below, closed above."""
        return [(Position(first.ledger_id, first.entry_id - 1), last) for first, last in self._deleted]

    @property
    def last_acknowledged(self) -> Position:
        """The highest entry that is acknowledged, if only in part; at least mark-delete."""
        candidates = (self._deleted.last if self._deleted else None, self._partial.last)
        return max(self.mark_delete_position, *(each for each in candidates if each is not None))

    def holes(self) -> Iterator[Range]:
        """The stretches below the last deleted entry that are not deleted, ascending; each lies in one ledger."""
        if not self._deleted:
            return
        last = self._deleted.last
        position = self._space.next_position(self.mark_delete_position)
        while position < last:
            end = last if last.ledger_id == position.ledger_id else self._last_of(position.ledger_id)
            if position <= end:
                yield from self._deleted.absent(Range(position, end))
            position = self._space.next_position(max(position, end))

    @property
    def deleted_ranges_count(self) -> int:
        """How many ranges ``deleted_ranges`` has, without making them."""
        return self._deleted.runs

    @property
    def deleted_serialized_size(self) -> int:
        """Bytes that the entries deleted beyond mark-delete take in a checkpoint, about."""
        if not self._deleted:
            return 0
        listed, mapped = self._deleted.serialize()
        return _LISTED_BYTES * len(listed) + sum(len(bitmap) for _, bitmap in mapped)

    @property
    def partial_batches_count(self) -> int:
        """How many entries are acknowledged in part."""
        return len(self._partial)

    def backlog(self, last_confirmed: Position) -> int:
        """Entries up to and including ``last_confirmed`` that are not deleted."""
        if self.mark_delete_position == last_confirmed and not self._deleted:
            return 0
        return self._space.count(self.mark_delete_position, last_confirmed) - self._deleted.entries

    def undeleted_among(self, ledger_id: int, entry_ids: BitMap) -> int:
        """How many of these entries of one ledger are not deleted."""
        mark = self.mark_delete_position
        if ledger_id < mark.ledger_id:
            return 0
        first = mark.entry_id + 1 if ledger_id == mark.ledger_id else 0
        beyond = entry_ids.range_cardinality(first, ENTRY_ID_MAX + 1)
        return beyond - self._deleted.count_among(ledger_id, entry_ids)

    def undeleted(self, from_: Position, through: Position, limit: int) -> list[Range]:
        """The first ``limit`` entries in ``from_..through``, both inclusive, that are not deleted."""
        found: list[Range] = []
        position = max(from_, self._space.next_position(self.mark_delete_position))
        while position <= through and limit > 0:
            ledger_id = position.ledger_id
            last = through if ledger_id == through.ledger_id else self._last_of(ledger_id)
            if position <= last:
                for first, stop in self._deleted.absent(Range(position, last)):
                    taken = min(stop.entry_id - first.entry_id + 1, limit)
                    found.append(Range(first, Position(ledger_id, first.entry_id + taken - 1)))
                    limit -= taken
                    if limit == 0:
                        return found
            position = self._space.next_position(max(position, last))
            if position.ledger_id == ledger_id:  # no ledger follows, though ``through`` names a later one: it is gone
                break
        return found

    def _last_of(self, ledger_id: int) -> Position:
        """The last entry of a ledger that another one follows; entry -1 when it holds none."""
        held = self._space.count(Position(ledger_id, -1), Position(ledger_id, ENTRY_ID_MAX))
        return Position(ledger_id, held - 1)
