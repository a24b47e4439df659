"""One origin's extents: runs of entries that are consecutive at the origin and locally, in compact arrays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from magnetar.base.position import Position
from magnetar.cursor.ranges import Range
from magnetar.geo.origins.extent_table import ExtentTable
from magnetar.geo.origins.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class HeldExtent:
    """``count`` entries from ``local_first`` and ``origin_first``, consecutive in both logs."""

    local_first: Position
    origin_first: Position
    count: int
    floor: Position  # exclusive: the origin published no other entry between it and origin_first
    previous: Position | None  # the origin's previous entry before origin_first in this log, including trimmed ones

    @property
    def local_last(self) -> Position:
        """Return the local position of its last entry."""
        return Position(self.local_first.ledger_id, self.local_first.entry_id + self.count - 1)

    @property
    def origin_last(self) -> Position:
        """Return the origin position of its last entry."""
        return Position(self.origin_first.ledger_id, self.origin_first.entry_id + self.count - 1)


class Track:
    """The extents of one origin, ascending in local and in origin positions."""

    __slots__ = ("_counted_before", "_floors", "_local_end", "_table", "before", "last")

    def __init__(self, before: Position | None) -> None:
        """Create an empty track; ``before`` is the newest trimmed origin position."""
        # numbers count the entries up to the extent, inclusive, since the track was created
        self._table = ExtentTable()
        self._counted_before = 0  # number of trimmed entries in the same count
        # by origin_first, ascending, only where the floor is not the previous entry
        self._floors: dict[Position, Position] = {}
        self.before = before
        """The newest origin position before the first extent, of entries that were trimmed; None without any."""
        self._local_end: Position | None = None  # the local position after the last entry
        self.last = before

    def __len__(self) -> int:
        """Return the number of extents."""
        return len(self._table)

    def append(self, origin_first: Position, count: int, local_first: Position, floor: Position) -> None:
        """Append entries; extend the last extent if both sides are consecutive."""
        assert count > 0, count
        assert floor < origin_first, (floor, origin_first)
        ledger_id, entry_id = origin_first
        last, table = self.last, self._table
        if (
            local_first == self._local_end
            and floor == last
            and ledger_id == floor.ledger_id
            and entry_id == floor[1] + 1
        ):
            table.grow_last(count)
            self._local_end = Position(local_first.ledger_id, local_first.entry_id + count)
            self.last = Position(ledger_id, entry_id + count - 1)
            return
        through = self._counted_before
        if len(table):
            assert last is not None
            assert last < origin_first, (last, origin_first)
            through = table.through(-1)
        elif self.before is not None and self.before >= origin_first:
            self.before = floor  # entries recorded as trimmed were appended again
        table.append(local_first, origin_first, through + count)
        if floor != self._previous(len(table) - 1):
            self._floors[origin_first] = floor
        self._local_end = Position(local_first.ledger_id, local_first.entry_id + count)
        self.last = Position(ledger_id, entry_id + count - 1)

    def grow(self, first: Position, count: int) -> bool:
        """Extend the last extent by entries with two equal positions; False if they do not continue it."""
        ledger_id, entry_id = first
        if first != self._local_end or self.last != (ledger_id, entry_id - 1):
            return False
        self._table.grow_last(count)
        end = entry_id + count
        self._local_end, self.last = Position(ledger_id, end), Position(ledger_id, end - 1)
        return True

    def _count(self, index: int) -> int:
        """Return the number of entries of an extent."""
        return self._table.through(index) - self._table.through_before(index, self._counted_before)

    def _origin_last(self, index: int) -> Position:
        _, _, ledger_id, entry_id, through = self._table.row(index)
        return Position(ledger_id, entry_id + through - self._table.through_before(index, self._counted_before) - 1)

    def _previous(self, index: int) -> Position | None:
        """Return the newest origin position before an extent."""
        return self._origin_last(index - 1) if index else self.before

    def _floor(self, index: int) -> Position:
        floor = (self._floors and self._floors.get(self._table.origin(index))) or self._previous(index)
        assert floor is not None, index
        return floor

    # --- from local to origin --------------------------------------------------------------------------------------

    def extents(self, after: Position, through: Position) -> Iterator[HeldExtent]:
        """Yield the extents at local positions ``(after, through]``, cut to those bounds, in order."""
        index = max(0, self._table.local_at_or_below(after))
        while index < len(self) and (local := self._table.local(index)) <= through:
            count, origin = self._count(index), self._table.origin(index)
            skipped = max(0, after.entry_id + 1 - local.entry_id) if local.ledger_id == after.ledger_id else 0
            if local.ledger_id < after.ledger_id:
                skipped = count
            if local.ledger_id == through.ledger_id:
                count = min(count, through.entry_id - local.entry_id + 1)
            if skipped == 0:
                yield HeldExtent(local, origin, count, self._floor(index), self._previous(index))
            elif skipped < count:
                before = Position(origin.ledger_id, origin.entry_id + skipped - 1)
                yield HeldExtent(
                    Position(local.ledger_id, local.entry_id + skipped),
                    Position(origin.ledger_id, before.entry_id + 1),
                    count - skipped,
                    before,
                    before,
                )
            index += 1

    def origins_of(self, ranges: Iterable[Range]) -> Iterator[tuple[int, int, int]]:
        """Yield the entries of the origin in local ``ranges``, each in one ledger: origin ledger, first and last entry.

        In log order; fast if the ranges ascend within extents. The track must not change while the iterator is in use.
        """
        local_ledger = first = end = origin_ledger = shift = 0
        for begin, stop in ranges:
            if begin.ledger_id == local_ledger and first <= begin.entry_id and stop.entry_id < end:
                yield origin_ledger, begin.entry_id + shift, stop.entry_id + shift
                continue
            for extent in self.extents(Position(begin.ledger_id, begin.entry_id - 1), stop):
                yield extent.origin_first.ledger_id, extent.origin_first.entry_id, extent.origin_last.entry_id
            index = self._table.local_at_or_below(stop)
            if index >= 0:
                local_ledger, first, origin_ledger, origin_first, _ = self._table.row(index)
                end, shift = first + self._count(index), origin_first - first

    def claims(self, first: Position, last: Position) -> list[Interval]:
        """Return the claims for acknowledging the local entries ``first..last``, both inclusive and in one ledger."""
        found: list[Interval] = []
        ledger_id, start = first
        stop = last.entry_id
        table, extents = self._table, len(self._table)
        index = max(0, table.local_at_or_below(first))
        while index < extents:
            local_ledger, at, origin_ledger, origin_entry, through = table.row(index)
            if (local_ledger, at) > last:
                break
            end = at + through - table.through_before(index, self._counted_before) - 1
            if local_ledger == ledger_id and end >= start:
                inside = at < start
                lower = Position(origin_ledger, origin_entry + start - at - 1) if inside else self._floor(index)
                if found and found[-1].upper == lower:
                    lower = found.pop().lower
                found.append(Interval(lower, Position(origin_ledger, origin_entry + min(end, stop) - at)))
            index += 1
        return found

    def newest_at(self, local: Position) -> Position | None:
        """Return the newest origin position held at or below ``local``; None if there is none."""
        index = self._table.local_at_or_below(local)
        if index < 0:
            return self.before
        first, origin, held = self._table.local(index), self._table.origin(index), self._count(index)
        if first.ledger_id == local.ledger_id:
            held = min(held, local.entry_id - first.entry_id + 1)
        return Position(origin.ledger_id, origin.entry_id + held - 1)

    def gaps(self, after: Position) -> Iterator[Interval]:
        """Yield the intervals of origin positions after the entry at ``after`` that lie between two entries held here.

        The origin may have published entries in them, but none that this log holds.
        """
        for origin_first, floor in self._floors.items():
            if origin_first > after:
                previous = self._previous(self._table.origin_at_or_below(origin_first))
                if previous is not None and previous < floor:
                    yield Interval(previous, floor)

    def count_through(self, local: Position) -> int:
        """Count the entries at or below ``local``, including trimmed ones."""
        index = self._table.local_at_or_below(local)
        if index < 0:
            return self._counted_before
        first, count = self._table.local(index), self._count(index)
        if first.ledger_id == local.ledger_id:
            count = min(count, local.entry_id - first.entry_id + 1)
        return (self._table.through(index - 1) if index else self._counted_before) + count

    # --- from origin to local --------------------------------------------------------------------------------------

    def held(self, lower: Position, upper: Position) -> list[Range]:
        """Return the local ranges of the entries at origin positions ``(lower, upper]``, ascending and joined."""
        found: list[Range] = []
        index = max(0, self._table.origin_at_or_below(lower))
        while index < len(self) and (origin := self._table.origin(index)) <= upper:
            start, stop = 0, self._count(index)
            if origin <= lower:
                start = lower.entry_id + 1 - origin.entry_id if origin.ledger_id == lower.ledger_id else stop
            if origin.ledger_id == upper.ledger_id:
                stop = min(stop, upper.entry_id - origin.entry_id + 1)
            if start < stop:
                ledger_id, entry_id = self._table.local(index)
                first, last = Position(ledger_id, entry_id + start), Position(ledger_id, entry_id + stop - 1)
                if found and found[-1].last == (ledger_id, first.entry_id - 1):
                    first = found.pop().first
                found.append(Range(first, last))
            index += 1
        return found

    def first_after(self, position: Position) -> Position | None:
        """Return the local position of the first entry above an origin position; None if there is none."""
        index = max(0, self._table.origin_at_or_below(position))
        if index < len(self) and self._origin_last(index) <= position:
            index += 1
        if index == len(self):
            return None
        origin, (ledger_id, entry_id) = self._table.origin(index), self._table.local(index)
        return Position(ledger_id, entry_id + max(0, position.entry_id + 1 - origin.entry_id) * (origin <= position))

    def extent_after(self, position: Position) -> HeldExtent | None:
        """Return the first extent that begins after an origin position; None if there is none."""
        index = self._table.origin_at_or_below(position) + 1
        if index == len(self):
            return None
        local, origin = self._table.local(index), self._table.origin(index)
        return HeldExtent(local, origin, self._count(index), self._floor(index), self._previous(index))

    def newest_through(self, position: Position) -> Position | None:
        """Return the local position of the newest entry at or below an origin position; None if there is none."""
        index = self._table.origin_at_or_below(position)
        if index < 0:
            return None
        origin, (ledger_id, entry_id) = self._table.origin(index), self._table.local(index)
        last = self._count(index) - 1
        if origin.ledger_id == position.ledger_id:
            last = min(last, position.entry_id - origin.entry_id)
        return Position(ledger_id, entry_id + last)

    def held_of_all(self, intervals: Iterable[tuple[Position, Position]]) -> Iterator[Range]:
        """Yield the ranges of ``held`` for many ``(lower, upper]``; fast if these ascend within extents."""
        origin_ledger = first = end = local_ledger = shift = 0
        for lower, upper in intervals:
            start, stop = lower.entry_id + 1, upper.entry_id
            if lower.ledger_id == upper.ledger_id == origin_ledger and first <= start and stop < end:
                yield Range(Position(local_ledger, start + shift), Position(local_ledger, stop + shift))
                continue
            yield from self.held(lower, upper)
            index = self._table.origin_at_or_below(upper)
            if index >= 0:
                (origin_ledger, first), (local_ledger, local) = self._table.origin(index), self._table.local(index)
                end, shift = first + self._count(index), local - first

    # --- shrinking -------------------------------------------------------------------------------------------------

    def trim(self, before_local: Position) -> None:
        """Drop the extents that end below ``before_local``."""
        gone = self._table.local_at_or_below(Position(before_local.ledger_id, before_local.entry_id - 1)) + 1
        if gone:
            ledger_id, entry_id = self._table.local(gone - 1)
            last = entry_id + self._count(gone - 1) - 1
            gone -= ledger_id == before_local.ledger_id and last >= before_local.entry_id
        if gone == 0:
            return
        self.before = self._origin_last(gone - 1)
        self._counted_before = self._table.through(gone - 1)
        self._table.delete_first(gone)
        first = self._table.origin(0) if len(self) else None
        if self._floors:  # a new dict, because a dict keeps its memory after deletions
            self._floors = {} if first is None else {at: each for at, each in self._floors.items() if at >= first}
        if not len(self):
            self._local_end = None

    def cut_back(self, last_local: Position) -> None:
        """Drop the entries at local positions above ``last_local``."""
        kept = self._table.local_at_or_below(last_local) + 1
        through = self.count_through(last_local)
        self._table.keep_first(kept)
        last = self._table.origin(-1) if kept else None
        for origin in list(takewhile(lambda each: last is None or each > last, reversed(self._floors))):
            del self._floors[origin]
        self._local_end = None
        if kept:
            self._table.set_last_through(through)
            ledger_id, entry_id = self._table.local(-1)
            self._local_end = Position(ledger_id, entry_id + self._count(kept - 1))
            self.last = self._origin_last(kept - 1)
        else:
            self.last = self.before
