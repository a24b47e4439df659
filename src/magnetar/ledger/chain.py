"""The arithmetic of positions in a chain of ledgers. Pure.

Entries are ranked through the whole chain: the first entry of the first ledger has rank 0. Any position may be asked
about, whether or not an entry is there; the order of positions says where it belongs.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from magnetar.base.position import EARLIEST, Position


@dataclass(slots=True)
class ChainLedger:
    """A ledger of the chain; its entries have ids 0 to ``entries - 1``."""

    ledger_id: int
    created_ms: int
    """Milliseconds since the epoch."""
    entries: int = 0
    size: int = 0
    """Bytes of the entries."""
    closed_ms: int | None = None
    """Since when it takes no more entries; None while it does, which only the last ledger of a chain may."""
    is_recovered: bool = False
    """Whether it was closed when its topic was opened after a crash: ``closed_ms`` is later than its last append."""


class LedgerChain:
    """Ledgers with ascending ids, any of which may be empty."""

    def __init__(self) -> None:
        """Start with no ledger."""
        self.ledgers: list[ChainLedger] = []
        self._ids: list[int] = []
        self._ranks: list[int] = []
        """Rank of each ledger's first entry."""

    @property
    def entries(self) -> int:
        """Number of entries; the rank that the next one gets."""
        return self._ranks[-1] + self.ledgers[-1].entries if self.ledgers else 0

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(ledger.size for ledger in self.ledgers)

    def add(self, ledger: ChainLedger) -> None:
        """Continue the chain with a ledger."""
        assert not self._ids or ledger.ledger_id > self._ids[-1], "ledger ids grow"
        self._ranks.append(self.entries)
        self._ids.append(ledger.ledger_id)
        self.ledgers.append(ledger)

    def change(self, ledger: ChainLedger, entries: int, size: int) -> None:
        """Add this many entries and bytes, which may be negative, to a ledger of the chain."""
        ledger.entries += entries
        ledger.size += size
        if ledger is not self.ledgers[-1]:
            for later in range(bisect_right(self._ids, ledger.ledger_id), len(self._ranks)):
                self._ranks[later] += entries

    def remove_first(self, count: int) -> None:
        """Forget the first ``count`` ledgers."""
        removed = sum(ledger.entries for ledger in self.ledgers[:count])
        del self.ledgers[:count], self._ids[:count], self._ranks[:count]
        self._ranks = [rank - removed for rank in self._ranks]

    def remove_last(self) -> None:
        """Forget the newest ledger, which must be empty."""
        assert not self.ledgers[-1].entries
        del self.ledgers[-1], self._ids[-1], self._ranks[-1]

    def find(self, ledger_id: int) -> ChainLedger | None:
        """Return the ledger with this id."""
        at = bisect_right(self._ids, ledger_id) - 1
        return self.ledgers[at] if at >= 0 and self._ids[at] == ledger_id else None

    def contains(self, position: Position) -> bool:
        """Whether there is an entry at ``position``."""
        ledger = self.find(position.ledger_id)
        return ledger is not None and 0 <= position.entry_id < ledger.entries

    def rank_after(self, position: Position) -> int:
        """Return how many entries are at or before ``position``: the rank of the first one after it."""
        at = bisect_right(self._ids, position.ledger_id) - 1
        if at < 0:
            return 0
        ledger = self.ledgers[at]
        if ledger.ledger_id < position.ledger_id:
            return self._ranks[at] + ledger.entries
        return self._ranks[at] + min(max(position.entry_id + 1, 0), ledger.entries)

    def position_of(self, rank: int) -> Position:
        """Return where the entry with this rank is; raises IndexError if there is none."""
        if not 0 <= rank < self.entries:
            message = f"no entry with rank {rank} among {self.entries}"
            raise IndexError(message)
        at = bisect_right(self._ranks, rank) - 1
        return Position(self._ids[at], rank - self._ranks[at])

    def size_after(self, position: Position) -> int:
        """Return the bytes of the entries after ``position``; those of one ledger are taken to be of one size."""
        size = 0
        for ledger in reversed(self.ledgers):
            if ledger.ledger_id < position.ledger_id:
                break
            size += ledger.size
            if ledger.ledger_id == position.ledger_id and ledger.entries:
                before = min(max(position.entry_id + 1, 0), ledger.entries)
                size -= ledger.size * before // ledger.entries
        return size

    def position_before_last(self, size: int) -> Position:
        """Return the lowest position with at most ``size`` bytes after it, as ``size_after`` counts them."""
        for ledger in reversed(self.ledgers):
            if ledger.size > size:
                kept = size * ledger.entries // ledger.size
                return Position(ledger.ledger_id, ledger.entries - kept - 1)
            size -= ledger.size
        return EARLIEST

    def next_position(self, position: Position) -> Position:
        """Return the first entry after ``position``, or where the next one would go if no ledger were added."""
        ledger_id, entry_id = position
        if self._ids and ledger_id == self._ids[-1]:
            return Position(ledger_id, entry_id + 1)
        rank = self.rank_after(position)
        if rank < self.entries:
            return self.position_of(rank)
        if self._ids and ledger_id < self._ids[-1]:
            return Position(self._ids[-1], self.ledgers[-1].entries)
        return Position(ledger_id, entry_id + 1)

    def previous_position(self, position: Position) -> Position:
        """Return the last entry before ``position``; a lower position without an entry if there is none."""
        ledger_id, entry_id = position
        rank = self.rank_after(Position(ledger_id, entry_id - 1))
        if rank > 0:
            return self.position_of(rank - 1)
        return Position(ledger_id, entry_id - 1) if entry_id >= 0 else EARLIEST
