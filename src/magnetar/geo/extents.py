"""One origin's extents: stretches of entries consecutive both at the origin and locally, in compact arrays."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.position import Position
from magnetar.cursor.ranges import Range
from magnetar.geo.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class HeldExtent:
    """``count`` entries consecutive both ways, from ``local_first`` and ``origin_first`` on."""

    local_first: Position
    origin_first: Position
    count: int
    floor: Position  # exclusive: from here up to origin_first the origin produced nothing else
    previous: Position | None  # the origin's entry held before origin_first, trimmed ones included


class _Places:
    """The first positions of the extents on one side, ascending."""

    __slots__ = ("entries", "ledgers")

    def __init__(self) -> None:
        self.ledgers = array("q")
        self.entries = array("q")

    def __getitem__(self, index: int) -> Position:
        return Position(self.ledgers[index], self.entries[index])

    def append(self, position: Position) -> None:
        self.ledgers.append(position.ledger_id)
        self.entries.append(position.entry_id)

    def delete(self, first: int, stop: int) -> None:
        del self.ledgers[first:stop]
        del self.entries[first:stop]

    def at_or_below(self, position: Position) -> int:
        """The index of the last extent that begins at or below ``position``; -1 when there is none."""
        ledger_id, entry_id = position
        ledgers = self.ledgers
        low, high = bisect_left(ledgers, ledger_id), len(ledgers)
        if low < high and ledgers[-1] != ledger_id:  # else it is the newest ledger, which is asked for most
            high = bisect_right(ledgers, ledger_id, low)
        return bisect_right(self.entries, entry_id, low, high) - 1


class Track:
    """The extents of one origin, in the order in which both sides grow."""

    __slots__ = ("_before", "_counted_before", "_floors", "_local", "_origin", "_through", "last")

    def __init__(self, before: Position | None) -> None:
        """Start empty; ``before`` is the newest origin position that was held and trimmed."""
        self._local = _Places()
        self._origin = _Places()
        self._through = array("q")  # entries up to and including each extent, counted since the track was made
        self._counted_before = 0  # entries that were trimmed, counted likewise
        self._floors: dict[Position, Position] = {}  # by origin_first, where the floor is not the entry held before
        self._before = before  # the newest origin position below the first extent
        self.last = before

    def __len__(self) -> int:
        """How many extents there are."""
        return len(self._through)

    def append(self, origin_first: Position, count: int, local_first: Position, floor: Position) -> None:
        """Add entries at the end, growing the last extent where both sides go on."""
        assert count > 0, count
        assert floor < origin_first, (floor, origin_first)
        ledger_id, entry_id = origin_first
        last, through = self.last, self._through
        if through:
            assert last is not None
            assert last < origin_first, (last, origin_first)
            if floor == last and ledger_id == last.ledger_id and entry_id == last.entry_id + 1:
                size = self._count(-1)
                local, end = self._local, self._local.entries[-1] + size
                if local.ledgers[-1] == local_first.ledger_id and end == local_first.entry_id:
                    through[-1] += count
                    self.last = Position(ledger_id, entry_id + count - 1)
                    return
        elif self._before is not None and self._before >= origin_first:
            self._before = floor  # entries given as trimmed are here after all
        self._local.append(local_first)
        self._origin.append(origin_first)
        through.append((through[-1] if through else self._counted_before) + count)
        if floor != self._previous(len(through) - 1):
            self._floors[origin_first] = floor
        self.last = Position(ledger_id, entry_id + count - 1)

    def _count(self, index: int) -> int:
        """How many entries one extent has."""
        through = self._through
        if index < 0:
            index += len(through)
        return through[index] - (through[index - 1] if index else self._counted_before)

    def _origin_last(self, index: int) -> Position:
        ledger_id, entry_id = self._origin[index]
        return Position(ledger_id, entry_id + self._count(index) - 1)

    def _previous(self, index: int) -> Position | None:
        """The newest origin position held before an extent."""
        return self._origin_last(index - 1) if index else self._before

    def _floor(self, index: int) -> Position:
        floor = self._floors.get(self._origin[index]) or self._previous(index)
        assert floor is not None, index
        return floor

    # --- from local to origin --------------------------------------------------------------------------------------

    def extents(self, after: Position, through: Position) -> Iterator[HeldExtent]:
        """The extents at local positions ``(after, through]``, cut to those bounds, in order."""
        index = max(0, self._local.at_or_below(after))
        while index < len(self) and (local := self._local[index]) <= through:
            count, origin = self._count(index), self._origin[index]
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

    def claims(self, first: Position, last: Position) -> list[Interval]:
        """What may be claimed for the local entries ``first..last``, both inclusive, in one ledger."""
        found: list[Interval] = []
        ledger_id, start = first
        stop = last.entry_id
        local, origins = self._local, self._origin
        index = max(0, local.at_or_below(first))
        while index < len(self._through) and (local.ledgers[index], local.entries[index]) <= last:
            at = local.entries[index]
            end = at + self._count(index) - 1
            if local.ledgers[index] == ledger_id and end >= start:
                origin_ledger, origin_entry = origins.ledgers[index], origins.entries[index]
                inside = at < start
                lower = Position(origin_ledger, origin_entry + start - at - 1) if inside else self._floor(index)
                if found and found[-1].upper == lower:
                    lower = found.pop().lower
                found.append(Interval(lower, Position(origin_ledger, origin_entry + min(end, stop) - at)))
            index += 1
        return found

    def newest_at(self, local: Position) -> Position | None:
        """The newest origin position held at or below ``local``; None when there is none."""
        index = self._local.at_or_below(local)
        if index < 0:
            return self._before
        first, origin, held = self._local[index], self._origin[index], self._count(index)
        if first.ledger_id == local.ledger_id:
            held = min(held, local.entry_id - first.entry_id + 1)
        return Position(origin.ledger_id, origin.entry_id + held - 1)

    def count_through(self, local: Position) -> int:
        """How many entries lie at or below ``local``, trimmed ones included."""
        index = self._local.at_or_below(local)
        if index < 0:
            return self._counted_before
        first, count = self._local[index], self._count(index)
        if first.ledger_id == local.ledger_id:
            count = min(count, local.entry_id - first.entry_id + 1)
        return (self._through[index - 1] if index else self._counted_before) + count

    # --- from origin to local --------------------------------------------------------------------------------------

    def held(self, lower: Position, upper: Position) -> list[Range]:
        """The local ranges of the entries at origin positions ``(lower, upper]``, ascending and joined."""
        found: list[Range] = []
        index = max(0, self._origin.at_or_below(lower))
        while index < len(self) and (origin := self._origin[index]) <= upper:
            start, stop = 0, self._count(index)
            if origin <= lower:
                start = lower.entry_id + 1 - origin.entry_id if origin.ledger_id == lower.ledger_id else stop
            if origin.ledger_id == upper.ledger_id:
                stop = min(stop, upper.entry_id - origin.entry_id + 1)
            if start < stop:
                ledger_id, entry_id = self._local[index]
                first, last = Position(ledger_id, entry_id + start), Position(ledger_id, entry_id + stop - 1)
                if found and found[-1].last == (ledger_id, first.entry_id - 1):
                    first = found.pop().first
                found.append(Range(first, last))
            index += 1
        return found

    def first_after(self, position: Position) -> Position | None:
        """The local position of the first entry held above an origin position; None when there is none."""
        index = max(0, self._origin.at_or_below(position))
        if index < len(self) and self._origin_last(index) <= position:
            index += 1
        if index == len(self):
            return None
        origin, (ledger_id, entry_id) = self._origin[index], self._local[index]
        return Position(ledger_id, entry_id + max(0, position.entry_id + 1 - origin.entry_id) * (origin <= position))

    def held_of_all(self, intervals: Iterable[tuple[Position, Position]]) -> Iterator[Range]:
        """The local ranges of ``held`` for many ``(lower, upper]``; quick where they ascend within extents."""
        origin_ledger = first = end = local_ledger = shift = 0
        for lower, upper in intervals:
            start, stop = lower.entry_id + 1, upper.entry_id
            if lower.ledger_id == upper.ledger_id == origin_ledger and first <= start and stop < end:
                yield Range(Position(local_ledger, start + shift), Position(local_ledger, stop + shift))
                continue
            yield from self.held(lower, upper)
            index = self._origin.at_or_below(upper)
            if index >= 0:
                (origin_ledger, first), (local_ledger, local) = self._origin[index], self._local[index]
                end, shift = first + self._count(index), local - first

    # --- shrinking -------------------------------------------------------------------------------------------------

    def trim(self, before_local: Position) -> None:
        """Drop the extents that end below ``before_local``."""
        gone = self._local.at_or_below(Position(before_local.ledger_id, before_local.entry_id - 1)) + 1
        if gone and self._local.ledgers[gone - 1] == before_local.ledger_id:
            last = self._local.entries[gone - 1] + self._count(gone - 1) - 1
            gone -= last >= before_local.entry_id
        if gone == 0:
            return
        self._before = self._origin_last(gone - 1)
        self._counted_before = self._through[gone - 1]
        self._delete(0, gone)

    def cut_back(self, last_local: Position) -> None:
        """Drop the entries at local positions above ``last_local``."""
        kept = self._local.at_or_below(last_local) + 1
        through = self.count_through(last_local)
        self._delete(kept, len(self))
        if kept:
            self._through[-1] = through
            self.last = self._origin_last(kept - 1)
        else:
            self.last = self._before

    def _delete(self, first: int, stop: int) -> None:
        for index in range(first, stop):
            self._floors.pop(self._origin[index], None)
        self._local.delete(first, stop)
        self._origin.delete(first, stop)
        del self._through[first:stop]
