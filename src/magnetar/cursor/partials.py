"""Partly acknowledged batches: which messages of an entry remain, as bits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.position import Position


class PartialBatches:
    """The remaining messages of partly acknowledged entries: bit ``i`` is set while message ``i`` is not acknowledged.

    Bits only ever go away, so two states merge by AND. An entry without a record has all its messages remaining.
    """

    __slots__ = ("_order", "_remaining")

    def __init__(self) -> None:
        """Start with no entry partly acknowledged."""
        self._remaining: dict[Position, int] = {}  # values are never 0: such an entry is whole and not kept here
        self._order: list[Position] = []  # the keys, ascending

    def __len__(self) -> int:
        """How many entries are partly acknowledged."""
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[Position, int]]:
        """Positions and their remaining bits, ascending."""
        return ((position, self._remaining[position]) for position in self._order)

    @property
    def last(self) -> Position | None:
        """The highest partly acknowledged entry."""
        return self._order[-1] if self._order else None

    def get(self, position: Position) -> int | None:
        """The remaining bits, or None when the entry has no record."""
        return self._remaining.get(position)

    def narrow(self, position: Position, remaining: int) -> int | None:
        """Keep only what also remains in ``remaining``; returns the new bits, or None when nothing changed.

        With 0 returned the entry is whole; its record is gone and the caller has to acknowledge the entry.
        """
        known = self._remaining.get(position)
        narrowed = remaining if known is None else known & remaining
        if narrowed == known:
            return None
        if narrowed == 0:
            if known is not None:
                del self._remaining[position]
                del self._order[bisect_left(self._order, position)]
        else:
            if known is None:
                insort(self._order, position)
            self._remaining[position] = narrowed
        return narrowed

    def discard(self, lower: Position, upper: Position) -> None:
        """Drop the records in ``(lower, upper]``."""
        low, high = bisect_right(self._order, lower), bisect_right(self._order, upper)
        for position in self._order[low:high]:
            del self._remaining[position]
        del self._order[low:high]

    def between(self, lower: Position, upper: Position) -> list[tuple[Position, int]]:
        """The records in ``(lower, upper]``, ascending."""
        low, high = bisect_right(self._order, lower), bisect_right(self._order, upper)
        return [(position, self._remaining[position]) for position in self._order[low:high]]

    def copy(self) -> PartialBatches:
        """The same, sharing nothing that changes."""
        made = PartialBatches()
        made._remaining, made._order = self._remaining.copy(), self._order.copy()
        return made

    def clear(self) -> None:
        """Forget every record."""
        self._remaining.clear()
        self._order.clear()
