"""Unordered sets of positions: one compressed bitmap for each ledger. Pure."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pyroaring import BitMap

from magnetar.base.position import Position
from magnetar.cursor.ranges import ENTRY_ID_MAX, Range, gaps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.cursor.state import CursorState


class PositionSet:
    """A set of positions. A million consecutive ones take some hundred bytes, scattered ones two bytes each."""

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        """Start empty."""
        self._ledgers: dict[int, BitMap] = {}

    def __bool__(self) -> bool:
        """Return whether the set is not empty."""
        return bool(self._ledgers)

    def __len__(self) -> int:
        """Return the number of positions."""
        return sum(map(len, self._ledgers.values()))

    def __contains__(self, position: Position) -> bool:
        """Return whether ``position`` is in the set."""
        entries = self._ledgers.get(position.ledger_id)
        return entries is not None and position.entry_id >= 0 and position.entry_id in entries

    def undeleted(self, state: CursorState) -> int:
        """Return the number of positions that a cursor has not acknowledged."""
        return sum(state.undeleted_among(ledger_id, entry_ids) for ledger_id, entry_ids in self._ledgers.items())

    def add(self, position: Position) -> None:
        """Add an entry."""
        entries = self._ledgers.get(position.ledger_id)
        if entries is None:
            entries = self._ledgers[position.ledger_id] = BitMap()
        entries.add(position.entry_id)

    def update(self, ledger_id: int, entry_ids: BitMap) -> None:
        """Add entries of one ledger."""
        if entry_ids:
            self._ledgers.setdefault(ledger_id, BitMap()).update(entry_ids)

    def discard(self, positions: Iterable[Position]) -> None:
        """Remove entries; missing ones are ignored."""
        for ledger_id, entry_id in positions:
            entries = self._ledgers.get(ledger_id)
            if entries is not None:
                entries.discard(entry_id)
                if not entries:
                    del self._ledgers[ledger_id]

    def discard_before(self, position: Position) -> int:
        """Remove the entries before ``position``; return their number."""
        before = len(self)
        for ledger_id in [ledger_id for ledger_id in self._ledgers if ledger_id <= position.ledger_id]:
            entries = self._ledgers[ledger_id]
            if ledger_id == position.ledger_id:
                entries.remove_range(0, max(position.entry_id, 0))
            if ledger_id < position.ledger_id or not entries:
                del self._ledgers[ledger_id]
        return before - len(self)

    def take_through(self, position: Position, count_max: int) -> list[Position]:
        """Remove the lowest entries up to and including ``position``, at most ``count_max``, and return them."""
        taken: list[Position] = []
        for ledger_id in sorted(ledger_id for ledger_id in self._ledgers if ledger_id <= position.ledger_id):
            last = position.entry_id if ledger_id == position.ledger_id else ENTRY_ID_MAX
            for entry_id in islice(self._ledgers[ledger_id], count_max - len(taken)):
                if entry_id > last:
                    break
                taken.append(Position(ledger_id, entry_id))
        self.discard(taken)
        return taken

    def clear(self) -> None:
        """Remove all."""
        self._ledgers.clear()

    def first_absent(self, position: Position) -> Position:
        """Return the first position at or after ``position``, in its ledger, that is not in the set."""
        if position not in self:
            return position
        first, _ = next(gaps(self._ledgers[position.ledger_id], position.entry_id, ENTRY_ID_MAX))
        return position._replace(entry_id=first)

    def absent(self, wanted: Range) -> list[Range]:
        """Return the parts of a range without entries in the set, ascending."""
        ledger_id = wanted.first.ledger_id
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            return [wanted]
        parts = gaps(entries, wanted.first.entry_id, wanted.last.entry_id)
        return [Range(Position(ledger_id, first), Position(ledger_id, last)) for first, last in parts]
