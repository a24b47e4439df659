"""Sets of deleted entries: one compressed bitmap for each ledger.

Everything here counts entries, so bounds are inclusive on both sides. Pulsar's open-closed notation is
made only where it is shown.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

from pyroaring import BitMap

from magnetar.base.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ENTRY_ID_MAX = 2**32 - 2
"""Largest entry id that a cursor can hold; one below the widest value of a bitmap, so that ends fit."""


ENTRIES_LISTED_MAX = 8
"""Entries of a ledger that take less space one by one, some 4 bytes each, than as a bitmap."""


class Range(NamedTuple):
    """Consecutive entries of one ledger, both ends inclusive; as text in Pulsar's notation, open below."""

    first: Position
    last: Position

    def __str__(self) -> str:
        """``(1:2..1:4]`` for the entries 3 and 4 of ledger 1."""
        return f"({self.first._replace(entry_id=self.first.entry_id - 1)}..{self.last}]"

    @property
    def entries(self) -> int:
        """How many entries it holds; at least one."""
        return self.last.entry_id - self.first.entry_id + 1


def ranges_of(ledger_id: int, entry_ids: Iterable[int]) -> list[Range]:
    """The fewest ranges that hold these entries and no others, ascending."""
    ordered = sorted(set(entry_ids))
    if not ordered:
        return []
    if ordered[-1] - ordered[0] == len(ordered) - 1:  # without gaps, as what one consumer acknowledges mostly is
        return [Range(Position(ledger_id, ordered[0]), Position(ledger_id, ordered[-1]))]
    starts = [ordered[0], *(after for before, after in pairwise(ordered) if after != before + 1)]
    ends = [*(before for before, after in pairwise(ordered) if after != before + 1), ordered[-1]]
    return [
        Range(Position(ledger_id, first), Position(ledger_id, last)) for first, last in zip(starts, ends, strict=True)
    ]


def _next_or(bitmap: BitMap, entry_id: int, limit: int) -> int:
    """The smallest member at or after ``entry_id``, or ``limit`` when there is none below it."""
    # pyroaring's next_set_bit raises ValueError when there is none, and then does not free its iterator.
    if not bitmap or entry_id > bitmap.max():
        return limit
    return min(bitmap.next_set_bit(entry_id), limit)


def _run_end(bitmap: BitMap, entry_id: int) -> int:
    """The last entry of the run that holds ``entry_id``, which must be a member: galloping, then halving."""
    step = 1
    while bitmap.contains_range(entry_id, entry_id + step + 1):
        entry_id += step
        step *= 2
    while step > 1:
        step //= 2
        if bitmap.contains_range(entry_id, entry_id + step + 1):
            entry_id += step
    return entry_id


def _run_start(bitmap: BitMap, entry_id: int) -> int:
    """The first entry of the run that holds ``entry_id``, which must be a member: galloping, then halving."""
    step = 1
    while entry_id >= step and bitmap.contains_range(entry_id - step, entry_id + 1):
        entry_id -= step
        step *= 2
    while step > 1:
        step //= 2
        if entry_id >= step and bitmap.contains_range(entry_id - step, entry_id + 1):
            entry_id -= step
    return entry_id


def _count_runs(bitmap: BitMap) -> int:
    """How many maximal runs there are, without a look at each: members whose predecessor is none."""
    return len(bitmap) - bitmap.intersection_cardinality(bitmap.shift(1))


def _runs(ledger_id: int, bitmap: BitMap, first: int = 0) -> Iterator[Range]:
    """The maximal runs of one ledger's entries from ``first`` on, ascending."""
    end = bitmap.max() + 1 if bitmap else 0
    start = _next_or(bitmap, first, end)
    while start < end:
        stop = _run_end(bitmap, start)
        yield Range(Position(ledger_id, start), Position(ledger_id, stop))
        start = _next_or(bitmap, stop + 1, end)


def gaps(bitmap: BitMap, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The maximal stretches of ``first..last`` that are absent, ascending."""
    start = first
    while start <= last:
        if start in bitmap:
            start = _run_end(bitmap, start) + 1
            continue
        stop = _next_or(bitmap, start, last + 1)
        yield start, stop - 1
        start = stop


class _LedgerEntries:
    """The deleted entries of one ledger, with its number of runs kept up to date."""

    __slots__ = ("bitmap", "runs")

    def __init__(self, bitmap: BitMap | None = None) -> None:
        self.bitmap = BitMap() if bitmap is None else bitmap
        self.runs = _count_runs(bitmap) if bitmap else 0

    def add_range(self, first: int, last: int) -> list[tuple[int, int]]:
        """Add ``first..last``; returns the stretches that were absent."""
        bitmap = self.bitmap
        absent = list(gaps(bitmap, first, last))
        if absent:
            # All runs that lie in or touch first..last become one: those between two gaps, and one on each side.
            left = first in bitmap or (first > 0 and first - 1 in bitmap)
            right = last in bitmap or last + 1 in bitmap
            self.runs += 1 - (len(absent) - 1 + left + right)
            bitmap.add_range(first, last + 1)
        return absent

    def discard_through(self, entry_id: int) -> int:
        """Forget the entries up to and including ``entry_id``; returns how many those were."""
        bitmap = self.bitmap
        first, gone = bitmap.min(), bitmap.range_cardinality(0, entry_id + 1)
        bitmap.remove_range(0, entry_id + 1)
        if gone == entry_id + 1 - first:  # all of one run, as below a mark-delete position
            self.runs -= entry_id + 1 not in bitmap
        elif gone:
            self.runs = _count_runs(bitmap)
        return gone


class DeletedEntries:
    """Which entries are deleted, across ledgers."""

    __slots__ = ("_ledgers", "_order", "entries", "runs")

    def __init__(self, bitmaps: Mapping[int, BitMap] | None = None) -> None:
        """Start empty, or with what is in each ledger's bitmap, which belongs to this object from now on."""
        held = sorted((bitmaps or {}).items())
        self._ledgers = {ledger_id: _LedgerEntries(bitmap) for ledger_id, bitmap in held if bitmap}
        self._order = list(self._ledgers)  # the keys, ascending
        self.entries = sum(len(ledger.bitmap) for ledger in self._ledgers.values())
        self.runs = sum(ledger.runs for ledger in self._ledgers.values())
        """Number of maximal runs; a run ends with its ledger."""

    @classmethod
    def of_ranges(cls, ranges: Iterable[Range]) -> Self:
        """The entries of all ranges, in any order; quicker than adding them one by one."""
        bitmaps: dict[int, BitMap] = {}
        for ledger_id, of_ledger in groupby(ranges, lambda each: each.first.ledger_id):
            bitmap = bitmaps.setdefault(ledger_id, BitMap())
            singles: list[int] = []
            for (_, first), (_, last) in of_ledger:
                assert 0 <= first <= last <= ENTRY_ID_MAX, (ledger_id, first, last)
                if first == last:
                    singles.append(first)
                else:
                    bitmap.add_range(first, last + 1)
            bitmap.update(singles)
        return cls(bitmaps)

    @property
    def first_ledger_id(self) -> int:
        """The smallest ledger with a deleted entry; there must be one."""
        return self._order[0]

    @property
    def last(self) -> Position:
        """The highest deleted entry; there must be one."""
        ledger_id = self._order[-1]
        return Position(ledger_id, self._ledgers[ledger_id].bitmap.max())

    def __bool__(self) -> bool:
        """Whether any entry is deleted."""
        return self.entries > 0

    def __contains__(self, position: Position) -> bool:
        """Whether ``position`` is deleted."""
        ledger = self._ledgers.get(position.ledger_id)
        return ledger is not None and position.entry_id >= 0 and position.entry_id in ledger.bitmap

    def __iter__(self) -> Iterator[Range]:
        """The maximal runs, ascending."""
        for ledger_id in self._order:
            yield from _runs(ledger_id, self._ledgers[ledger_id].bitmap)

    def after(self, position: Position) -> Iterator[Range]:
        """The maximal runs of what is deleted after ``position``, ascending."""
        for ledger_id in self._order[bisect_left(self._order, position.ledger_id) :]:
            first = position.entry_id + 1 if ledger_id == position.ledger_id else 0
            yield from _runs(ledger_id, self._ledgers[ledger_id].bitmap, first)

    def _ledger(self, ledger_id: int) -> _LedgerEntries:
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            ledger = self._ledgers[ledger_id] = _LedgerEntries()
            insort(self._order, ledger_id)
        return ledger

    def add(self, position: Position) -> bool:
        """Delete one entry; False when it was deleted before."""
        ledger_id, entry_id = position
        assert 0 <= entry_id <= ENTRY_ID_MAX, position
        ledger = self._ledger(ledger_id)
        bitmap = ledger.bitmap
        if entry_id in bitmap:
            return False
        runs = 1 - (entry_id > 0 and entry_id - 1 in bitmap) - (entry_id + 1 in bitmap)
        ledger.runs += runs
        self.runs += runs
        bitmap.add(entry_id)
        self.entries += 1
        return True

    def add_range(self, wanted: Range) -> list[Range]:
        """Delete a range; returns the parts of it that were not deleted before, ascending."""
        (ledger_id, first), (_, last) = wanted
        assert 0 <= first <= last <= ENTRY_ID_MAX, wanted
        ledger = self._ledger(ledger_id)
        before = ledger.runs
        absent = ledger.add_range(first, last)
        self.runs += ledger.runs - before
        added = [Range(Position(ledger_id, start), Position(ledger_id, stop)) for start, stop in absent]
        self.entries += sum(gap.entries for gap in added)
        return added

    def absent(self, wanted: Range) -> Iterator[Range]:
        """The parts of a range that are not deleted, ascending; found one by one, so a caller may stop early."""
        (ledger_id, first), (_, last) = wanted
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            yield wanted
            return
        for start, stop in gaps(ledger.bitmap, first, last):
            yield Range(Position(ledger_id, start), Position(ledger_id, stop))

    def run_end(self, position: Position) -> Position:
        """The last entry of the run that holds ``position``, which must be deleted."""
        return Position(position.ledger_id, _run_end(self._ledgers[position.ledger_id].bitmap, position.entry_id))

    def run_of(self, position: Position) -> Range:
        """The whole run that holds ``position``, which must be deleted."""
        first = _run_start(self._ledgers[position.ledger_id].bitmap, position.entry_id)
        return Range(Position(position.ledger_id, first), self.run_end(position))

    def holds_any(self, wanted: Range) -> bool:
        """Whether any entry of a range is deleted."""
        ledger = self._ledgers.get(wanted.first.ledger_id)
        return (
            ledger is not None and ledger.bitmap.range_cardinality(wanted.first.entry_id, wanted.last.entry_id + 1) > 0
        )

    def missing_in(self, other: DeletedEntries) -> Iterator[Range]:
        """The runs of what is deleted here and not in ``other``, ascending; ``other`` may grow meanwhile."""
        for ledger_id in self._order:
            bitmap = self._ledgers[ledger_id].bitmap
            there = other._ledgers.get(ledger_id)
            yield from _runs(ledger_id, bitmap if there is None else bitmap - there.bitmap)

    def minus(self, other: DeletedEntries) -> DeletedEntries:
        """What is deleted here and not in ``other``."""
        none = _LedgerEntries()
        held = self._ledgers.items()
        return DeletedEntries({key: each.bitmap - other._ledgers.get(key, none).bitmap for key, each in held})

    def discard_through(self, position: Position) -> None:
        """Forget everything up to and including ``position``."""
        ledger_id, entry_id = position
        passed = bisect_left(self._order, ledger_id)
        for old in self._order[:passed]:
            gone = self._ledgers.pop(old)
            self.entries -= len(gone.bitmap)
            self.runs -= gone.runs
        del self._order[:passed]
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or entry_id < 0:
            return
        before = ledger.runs
        self.entries -= ledger.discard_through(entry_id)
        self.runs += ledger.runs - before
        if not ledger.bitmap:
            del self._ledgers[ledger_id]
            del self._order[0]

    def count_among(self, ledger_id: int, entry_ids: BitMap) -> int:
        """How many of these entries of one ledger are deleted."""
        ledger = self._ledgers.get(ledger_id)
        return ledger.bitmap.intersection_cardinality(entry_ids) if ledger is not None else 0

    def serialize(self) -> tuple[list[Position], list[tuple[int, bytes]]]:
        """The entries of ledgers that have few; the others' bitmaps in Roaring's portable format; both ascending."""
        listed: list[Position] = []
        mapped: list[tuple[int, bytes]] = []
        for ledger_id in self._order:
            bitmap = self._ledgers[ledger_id].bitmap
            if len(bitmap) <= ENTRIES_LISTED_MAX:
                listed += [Position(ledger_id, entry_id) for entry_id in bitmap]
            else:
                bitmap.run_optimize()
                mapped.append((ledger_id, bitmap.serialize()))
        return listed, mapped


def deserialize(mapped: Iterable[tuple[int, bytes]]) -> dict[int, BitMap]:
    """The bitmaps that ``DeletedEntries.serialize`` made; raises ValueError if one is none."""
    return {ledger_id: BitMap.deserialize(data) for ledger_id, data in mapped}
