"""Sets of intervals over the order of one origin's positions, open below and closed above.

An interval claims all entries that the origin itself published at the positions inside it. Open-closed intervals are
adjacent exactly if one ends where the next begins, in whatever ledgers. So nothing here needs to know the existing
positions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.base.position import Position


_FEW_TIMES = 16
"""A set that has this many times more intervals between the bounds of an update gets those of the update one by one."""


class Interval(NamedTuple):
    """All positions ``p`` with ``lower < p <= upper``; never empty."""

    lower: Position
    upper: Position


class IntervalSet:
    """A union of intervals in its unique shortest form: sorted, without overlapping or adjacent intervals."""

    __slots__ = ("_lowers", "_uppers")

    def __init__(self) -> None:
        """Create an empty set."""
        self._lowers: list[Position] = []
        self._uppers: list[Position] = []

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Position, Position]]) -> IntervalSet:
        """Build the union of ``(lower, upper]`` pairs in any order; in linear time if they are sorted."""
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
        """Build the set from bounds, lower and upper in turn; raises ValueError unless they ascend."""
        made = cls()
        for _ in made.filling(bounds, max(1, len(bounds))):
            pass
        return made

    def filling(self, bounds: list[Position], at_once: int) -> Iterator[None]:
        """Fill this empty set with bounds, lower and upper in turn, in steps of ``at_once`` bounds.

        Raises ValueError unless they ascend.
        """
        assert not self._uppers, "the set is not empty"
        is_ascending = len(bounds) % 2 == 0
        for first in range(0, len(bounds), at_once):
            part, following = bounds[first : first + at_once], bounds[first + 1 : first + at_once + 1]
            is_ascending = is_ascending and all(map(lt, part, following))
            yield
        if not is_ascending:
            text = f"{len(bounds)} positions are not the bounds of intervals"
            raise ValueError(text)
        self._lowers, self._uppers = bounds[::2], bounds[1::2]

    def bounds(self, first: int, stop: int) -> list[Position]:
        """Return the bounds of the intervals at these indexes, lower and upper in turn."""
        return list(chain.from_iterable(zip(self._lowers[first:stop], self._uppers[first:stop], strict=True)))

    @property
    def last(self) -> Position | None:
        """Return the highest position in the set; None if it is empty."""
        return self._uppers[-1] if self._uppers else None

    def copy(self) -> IntervalSet:
        """Return a copy without shared mutable state."""
        made = IntervalSet()
        made._lowers, made._uppers = self._lowers.copy(), self._uppers.copy()
        return made

    def has_all_of(self, other: IntervalSet) -> bool:
        """Return whether every interval of ``other`` is one of this set; a fast test for nearly equal states."""
        if not other._uppers:
            return True
        first = bisect_left(self._uppers, other._uppers[0])
        stop = first + len(other)
        return self._uppers[first:stop] == other._uppers and self._lowers[first:stop] == other._lowers

    def __iter__(self) -> Iterator[Interval]:
        """Iterate over the intervals, ascending."""
        return map(Interval, self._lowers, self._uppers)

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self._uppers)

    def __eq__(self, other: object) -> bool:
        """Return whether both sets have the same positions."""
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._lowers == other._lowers and self._uppers == other._uppers

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        """Return Pulsar's notation of ranges."""
        return "[" + ",".join(f"({lower}..{upper}]" for lower, upper in self) + "]"

    def __contains__(self, position: Position) -> bool:
        """Return whether ``position`` is in an interval."""
        index = bisect_left(self._uppers, position)
        return index < len(self._lowers) and self._lowers[index] < position

    def covers(self, lower: Position, upper: Position) -> bool:
        """Return whether all of ``(lower, upper]`` is in the set."""
        index = bisect_left(self._uppers, upper)
        return index < len(self._lowers) and self._lowers[index] <= lower

    def add(self, lower: Position, upper: Position) -> list[Interval]:
        """Add ``(lower, upper]``; return the newly added parts, ascending."""
        assert lower < upper, (lower, upper)
        lowers, uppers = self._lowers, self._uppers
        if uppers and lower == uppers[-1]:  # the usual case: the next acknowledgement in order
            uppers[-1] = upper
            return [Interval(lower, upper)]
        added = self.missing(lower, upper)
        if added:
            first = bisect_left(uppers, lower)  # the first interval that overlaps or is adjacent
            stop = bisect_right(lowers, upper)  # the first interval beyond upper
            if first < stop:
                lower, upper = min(lower, lowers[first]), max(upper, uppers[stop - 1])
            lowers[first:stop] = [lower]
            uppers[first:stop] = [upper]
        return added

    def update(self, other: IntervalSet) -> list[Interval]:
        """Add all intervals of ``other``; return the newly added parts, ascending.

        In linear time of ``other`` and of the intervals between its bounds, unless ``other`` has few intervals.
        """
        if not other._uppers:
            return []
        lowers, uppers = self._lowers, self._uppers
        first = bisect_left(uppers, other._lowers[0])  # the first interval that overlaps or is adjacent
        stop = bisect_right(lowers, other._uppers[-1])  # the first interval beyond other
        if len(other) * _FEW_TIMES <= stop - first:
            return [added for lower, upper in other for added in self.add(lower, upper)]
        added = self._missing_of(other)
        if added:
            pairs = chain(zip(lowers[first:stop], uppers[first:stop], strict=True), added)
            united = self.from_pairs(pairs)
            lowers[first:stop], uppers[first:stop] = united._lowers, united._uppers  # noqa: SLF001 - of its own kind
        return added

    def _missing_of(self, other: IntervalSet) -> list[Interval]:
        """Return the parts of ``other`` that are not in the set, in one pass over both."""
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
        """Return the parts of ``(lower, upper]`` that are not in the set, ascending."""
        found = []
        for inside_lower, inside_upper in self._overlapping(lower, upper):
            if lower < inside_lower:
                found.append(Interval(lower, inside_lower))
            lower = inside_upper
        if lower < upper:
            found.append(Interval(lower, upper))
        return found

    def within(self, lower: Position, upper: Position) -> list[Interval]:
        """Return the parts of ``(lower, upper]`` that are in the set, ascending."""
        return [
            Interval(max(lower, inside_lower), min(upper, inside_upper))
            for inside_lower, inside_upper in self._overlapping(lower, upper)
        ]

    def subtract(self, other: IntervalSet) -> IntervalSet:
        """Return the positions that are in this set and not in ``other``."""
        return IntervalSet.from_pairs(part for lower, upper in self for part in other.missing(lower, upper))

    def _overlapping(self, lower: Position, upper: Position) -> Iterator[Interval]:
        """Yield the whole intervals that overlap ``(lower, upper]``, ascending."""
        first = bisect_right(self._uppers, lower)
        stop = bisect_left(self._lowers, upper)
        return map(Interval, self._lowers[first:stop], self._uppers[first:stop])
