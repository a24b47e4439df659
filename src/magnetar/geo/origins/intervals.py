"""Sets of intervals over the order of one origin's positions, open below and closed above.

An interval claims all entries that the origin itself produced at the positions inside it. Open-closed intervals
join exactly when one ends where the next begins, whatever ledgers the two ends lie in, so nothing here needs to
know which positions exist.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain, islice
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.base.position import Position


_FEW_TIMES = 16
"""Intervals are few, and are added one by one, where a set has so many times their number."""


class Interval(NamedTuple):
    """All positions ``p`` with ``lower < p <= upper``; never empty."""

    lower: Position
    upper: Position


class IntervalSet:
    """A union of intervals, always in its one shortest form: sorted, none overlapping or touching another."""

    __slots__ = ("_lowers", "_uppers")

    def __init__(self) -> None:
        """Start empty."""
        self._lowers: list[Position] = []
        self._uppers: list[Position] = []

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Position, Position]]) -> IntervalSet:
        """The union of ``(lower, upper]`` pairs, in any order; in linear time if they are sorted."""
        made = cls()
        lowers, uppers = made._lowers, made._uppers
        for lower, upper in sorted(pairs):
            assert lower < upper, (lower, upper)
            if not uppers or lower > uppers[-1]:
                lowers.append(lower)
                uppers.append(upper)
            elif upper > uppers[-1]:
                uppers[-1] = upper
        return made

    @classmethod
    def from_bounds(cls, bounds: list[Position]) -> IntervalSet:
        """The intervals with these bounds, lower and upper in turn; raises ValueError unless they ascend."""
        if len(bounds) % 2 or not all(map(lt, bounds, islice(bounds, 1, None))):
            text = f"{len(bounds)} positions are not the bounds of intervals"
            raise ValueError(text)
        made = cls()
        made._lowers, made._uppers = bounds[::2], bounds[1::2]
        return made

    def bounds(self, first: int, stop: int) -> list[Position]:
        """The bounds of the intervals of these indexes, lower and upper in turn."""
        return list(chain.from_iterable(zip(self._lowers[first:stop], self._uppers[first:stop], strict=True)))

    @property
    def last(self) -> Position | None:
        """The highest position that is in one of them; None when there is none."""
        return self._uppers[-1] if self._uppers else None

    def copy(self) -> IntervalSet:
        """The same set, sharing nothing that changes."""
        made = IntervalSet()
        made._lowers, made._uppers = self._lowers.copy(), self._uppers.copy()
        return made

    def has_all_of(self, other: IntervalSet) -> bool:
        """Whether every interval of ``other`` is one of these, whole: told quickly, and usual among equal states."""
        if not other._uppers:
            return True
        first = bisect_left(self._uppers, other._uppers[0])
        stop = first + len(other)
        return self._uppers[first:stop] == other._uppers and self._lowers[first:stop] == other._lowers

    def __iter__(self) -> Iterator[Interval]:
        """The intervals, ascending."""
        return map(Interval, self._lowers, self._uppers)

    def __len__(self) -> int:
        """How many intervals it takes."""
        return len(self._uppers)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same positions."""
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._lowers == other._lowers and self._uppers == other._uppers

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        """Pulsar's notation of ranges."""
        return "[" + ",".join(f"({lower}..{upper}]" for lower, upper in self) + "]"

    def __contains__(self, position: Position) -> bool:
        """Whether ``position`` lies in an interval."""
        index = bisect_left(self._uppers, position)
        return index < len(self._lowers) and self._lowers[index] < position

    def covers(self, lower: Position, upper: Position) -> bool:
        """Whether all of ``(lower, upper]`` is inside."""
        index = bisect_left(self._uppers, upper)
        return index < len(self._lowers) and self._lowers[index] <= lower

    def add(self, lower: Position, upper: Position) -> list[Interval]:
        """Add ``(lower, upper]``; returns the parts that were not inside before, ascending."""
        assert lower < upper, (lower, upper)
        lowers, uppers = self._lowers, self._uppers
        if uppers and lower == uppers[-1]:  # the usual acknowledgement: the next in order
            uppers[-1] = upper
            return [Interval(lower, upper)]
        added = self.missing(lower, upper)
        if added:
            first = bisect_left(uppers, lower)  # the first interval that reaches up to lower, touching included
            stop = bisect_right(lowers, upper)  # the first that begins beyond upper
            if first < stop:
                lower, upper = min(lower, lowers[first]), max(upper, uppers[stop - 1])
            lowers[first:stop] = [lower]
            uppers[first:stop] = [upper]
        return added

    def update(self, other: IntervalSet) -> list[Interval]:
        """Add all intervals of ``other``; returns the parts that were not inside before, ascending.

        In linear time, unless there are few of them.
        """
        if len(other) * _FEW_TIMES <= len(self):
            return [added for lower, upper in other for added in self.add(lower, upper)]
        added = self._missing_of(other)
        if added:
            pairs = chain(zip(self._lowers, self._uppers, strict=True), added)
            united = self.from_pairs(pairs)
            self._lowers, self._uppers = united._lowers, united._uppers  # noqa: SLF001 - of its own kind
        return added

    def _missing_of(self, other: IntervalSet) -> list[Interval]:
        """The parts of ``other`` that are not inside, in one pass over both."""
        lowers, uppers, size = self._lowers, self._uppers, len(self._uppers)
        found: list[Interval] = []
        at = bisect_right(uppers, other._lowers[0]) if other._lowers else 0
        for lower, upper in zip(other._lowers, other._uppers, strict=True):
            while at < size and uppers[at] <= lower:
                at += 1
            inside = at
            while inside < size and lowers[inside] < upper:
                if lower < lowers[inside]:
                    found.append(Interval(lower, lowers[inside]))
                lower = uppers[inside]  # noqa: PLW2901 - what is left of the interval
                inside += 1
            if lower < upper:
                found.append(Interval(lower, upper))
        return found

    def missing(self, lower: Position, upper: Position) -> list[Interval]:
        """The parts of ``(lower, upper]`` that are not inside, ascending."""
        found = []
        for inside_lower, inside_upper in self._overlapping(lower, upper):
            if lower < inside_lower:
                found.append(Interval(lower, inside_lower))
            lower = inside_upper
        if lower < upper:
            found.append(Interval(lower, upper))
        return found

    def within(self, lower: Position, upper: Position) -> list[Interval]:
        """The parts of ``(lower, upper]`` that are inside, ascending."""
        return [
            Interval(max(lower, inside_lower), min(upper, inside_upper))
            for inside_lower, inside_upper in self._overlapping(lower, upper)
        ]

    def subtract(self, other: IntervalSet) -> IntervalSet:
        """What is inside this one and not inside ``other``."""
        return IntervalSet.from_pairs(part for lower, upper in self for part in other.missing(lower, upper))

    def _overlapping(self, lower: Position, upper: Position) -> Iterator[Interval]:
        """The intervals that share a position with ``(lower, upper]``, whole, ascending."""
        first = bisect_right(self._uppers, lower)
        stop = bisect_left(self._lowers, upper)
        return map(Interval, self._lowers[first:stop], self._uppers[first:stop])
