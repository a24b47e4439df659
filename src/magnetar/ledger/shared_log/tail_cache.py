"""The newest entries of all ledgers, in memory, so that consumers who keep up never touch the disk."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_OVERHEAD_BYTES = 56
"""What an entry takes beside its bytes: the header of the object, its alignment, and a place in a list."""

CHUNK_OVERHEAD_BYTES = 960
"""What a chunk takes beside its entries, with its share of its ledger's own objects."""

CHUNK_BYTES_MAX = 1024 * 1024
"""Entries of one ledger that are evicted together, unless a single run is larger."""

_CHUNK_FRACTION = 16
"""A chunk takes runs until this share of the cache's limit was added since the chunk began.

So the newest entries of a slow ledger are never evicted because its chunk is old.
"""

_EVICT_FRACTION = 8
"""Evicting cuts an eighth at a time, so that moving a list's rest down is paid once for many entries."""


@dataclass(slots=True, eq=False)
class _Chunk:
    """Consecutive entries of one ledger that were added one after the other, and are evicted together."""

    ledger_id: int
    began: int
    """Bytes that had been added to the whole cache when the chunk began."""
    entries: int = 0
    size_bytes: int = CHUNK_OVERHEAD_BYTES


@dataclass(slots=True)
class _Tail:
    """Consecutive entries of one ledger; the first has entry id ``first``."""

    first: int
    entries: list[bytes] = field(default_factory=list)
    chunks: OrderedDict[_Chunk, None] = field(default_factory=OrderedDict)
    """What the entries are evicted in, oldest first."""
    newest: _Chunk | None = None


class TailCache:
    """At most ``max_bytes`` of memory plus the run added last; the oldest entries go first, whatever their ledger.

    The limit counts what entries take in memory, not only their bytes, and nothing remains of what was evicted or
    dropped. So the limit bounds the whole cache, for entries of any size.
    """

    def __init__(self, max_bytes: int) -> None:
        """Start empty."""
        self.size_bytes = 0
        """Bytes of memory that the entries take, with their overhead."""
        self._max_bytes = max_bytes
        self._chunk_bytes_max = min(CHUNK_BYTES_MAX, max_bytes // _CHUNK_FRACTION)
        self._chunk_age_max = max_bytes // _CHUNK_FRACTION
        self._added_bytes = 0
        self._tails: dict[int, _Tail] = {}
        self._order: OrderedDict[_Chunk, None] = OrderedDict()
        """The chunks of all ledgers, in the order in which they began."""

    def add(self, ledger_id: int, first: int, entries: Sequence[bytes], size: int) -> None:
        """Keep a run of ``size`` bytes; what the ledger has here must end where it starts, or is dropped.

        A run without any bytes is not kept: it belongs to a cursor, whose records are not read as entries.
        """
        if not size:
            return
        tail = self._tails.get(ledger_id)
        if tail is None or tail.first + len(tail.entries) != first:
            self.drop(ledger_id)
            tail = self._tails[ledger_id] = _Tail(first)
        count = len(entries)
        size += count * ENTRY_OVERHEAD_BYTES
        chunk, added = tail.newest, self._added_bytes
        if (
            chunk is None
            or chunk.size_bytes + size > self._chunk_bytes_max
            or added - chunk.began > self._chunk_age_max
        ):
            chunk = tail.newest = _Chunk(ledger_id, added)
            tail.chunks[chunk] = self._order[chunk] = None
            self.size_bytes += CHUNK_OVERHEAD_BYTES
        tail.entries.extend(entries)
        chunk.entries += count
        chunk.size_bytes += size
        self.size_bytes += size
        self._added_bytes = added + size
        if self.size_bytes > self._max_bytes:
            self._evict(chunk)

    def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        """Entries from ``first`` on, at least one, whatever its size; None if ``first`` is not here."""
        tail = self._tails.get(ledger_id)
        if tail is None or not tail.first <= first < tail.first + len(tail.entries):
            return None
        start = first - tail.first
        return within(tail.entries[start : start + max(max_entries, 1)], max_bytes)

    def drop(self, ledger_id: int) -> None:
        """Forget a ledger."""
        tail = self._tails.pop(ledger_id, None)
        if tail is not None:
            for chunk in tail.chunks:
                del self._order[chunk]
                self.size_bytes -= chunk.size_bytes

    def __len__(self) -> int:
        """How many chunks there are."""
        return len(self._order)

    def _evict(self, newest: _Chunk) -> None:
        """Make room, but keep ``newest``, which holds the run added last."""
        target = self._max_bytes - self._max_bytes // _EVICT_FRACTION
        evicted: dict[int, int] = {}
        while self.size_bytes > target:
            chunk = next(iter(self._order))
            if chunk is newest:
                break
            del self._order[chunk]
            self.size_bytes -= chunk.size_bytes
            del self._tails[chunk.ledger_id].chunks[chunk]
            evicted[chunk.ledger_id] = evicted.get(chunk.ledger_id, 0) + chunk.entries
        for ledger_id, count in evicted.items():
            tail = self._tails[ledger_id]
            del tail.entries[:count]
            tail.first += count
            if not tail.chunks:
                del self._tails[ledger_id]


def within(entries: list[bytes], max_bytes: int) -> list[bytes]:
    """Return the leading entries that together fit ``max_bytes``, but at least the first."""
    if sum(map(len, entries)) <= max_bytes:
        return entries
    fitting = sum(size <= max_bytes for size in accumulate(map(len, entries)))
    return entries[: max(fitting, 1)]
