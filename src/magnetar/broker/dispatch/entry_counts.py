"""Counters of entries, grouped by ledger."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from magnetar.base.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from magnetar.cursor.ranges import Range


class EntryCounts:
    """A positive number for some entries, such as their messages or redeliveries; 0 for all others.

    Grouped by ledger, because entries are added and removed in runs: no position object is created for each of them.
    """

    __slots__ = ("_ledgers", "total")

    def __init__(self) -> None:
        """Create an empty set of counters."""
        self.total = 0
        """The sum of all numbers."""
        self._ledgers: dict[int, dict[int, int]] = {}

    def __bool__(self) -> bool:
        """Whether any entry has a number."""
        return self.total > 0

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the entries with a number. The object must not change meanwhile."""
        return (Position(ledger_id, entry_id) for ledger_id, counts in self._ledgers.items() for entry_id in counts)

    def __getitem__(self, position: Position) -> int:
        """Return the entry's number."""
        counts = self._ledgers.get(position.ledger_id)
        return counts.get(position.entry_id, 0) if counts is not None else 0

    def add(self, ledger_id: int, counts: Iterable[tuple[int, int]]) -> None:
        """Add to the numbers of entries, given with their ids."""
        known = self._ledgers.setdefault(ledger_id, {})
        for entry_id, count in counts:
            known[entry_id] = known.get(entry_id, 0) + count
            self.total += count

    def pop(self, position: Position) -> int:
        """Remove an entry; return its number."""
        counts = self._ledgers.get(position.ledger_id, {})
        count = counts.pop(position.entry_id, 0)
        self.total -= count
        if not counts:
            self._ledgers.pop(position.ledger_id, None)
        return count

    def discard(self, deleted: Iterable[Range]) -> list[int]:
        """Remove the entries of ranges; return their numbers."""
        ledgers = self._ledgers
        forgotten: list[int] = []
        for (ledger_id, first), (_, last) in deleted:
            counts = ledgers.get(ledger_id)
            if counts is None:
                continue
            if first == last:  # acknowledgements of Shared consumers are mostly scattered
                forgotten.append(counts.pop(first, 0))
            else:
                gone = range(first, last + 1)
                held = [entry_id for entry_id in counts if entry_id in gone] if len(gone) > len(counts) else gone
                forgotten += map(counts.pop, held, repeat(0))
            if not counts:
                del ledgers[ledger_id]
        self.total -= sum(forgotten)
        return list(filter(None, forgotten))

    def take(self, deleted: Mapping[int, set[int]]) -> list[int]:
        """Remove entries, given by ledger; return their numbers. The time depends on the smaller of both sets."""
        forgotten: list[int] = []
        for ledger_id, entry_ids in deleted.items():
            counts = self._ledgers.get(ledger_id)
            if counts is None:
                continue
            forgotten += map(counts.pop, counts.keys() & entry_ids)
            if not counts:
                del self._ledgers[ledger_id]
        self.total -= sum(forgotten)
        return forgotten

    def holds_any(self, wanted: Range) -> bool:
        """Return whether any entry of a range has a number."""
        ledger_id, first = wanted.first
        counts = self._ledgers.get(ledger_id, {})
        looked_for = range(first, wanted.last.entry_id + 1)
        if len(looked_for) > len(counts):
            return any(entry_id in looked_for for entry_id in counts)
        return any(entry_id in counts for entry_id in looked_for)

    def clear(self) -> None:
        """Remove all entries."""
        self._ledgers.clear()
        self.total = 0


def by_ledger(ranges: Iterable[Range]) -> dict[int, set[int]]:
    """Return the ids of the entries of ranges, by ledger."""
    ids: dict[int, set[int]] = {}
    for (ledger_id, first), (_, last) in ranges:
        ids.setdefault(ledger_id, set()).update(range(first, last + 1))
    return ids
