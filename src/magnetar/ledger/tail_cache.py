"""The newest entries of all ledgers, in memory, so that consumers who keep up never touch the disk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVICT_FRACTION = 8
"""Evicting cuts an eighth at a time, so that moving a list's rest down is paid once for many entries."""


@dataclass(slots=True)
class _Tail:
    """Consecutive entries of one ledger; the first has entry id ``first``."""

    first: int
    entries: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


class TailCache:
    """At most ``max_bytes`` of entries plus the run added last; the oldest go first, whatever their ledger."""

    def __init__(self, max_bytes: int) -> None:
        """Start empty."""
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._tails: dict[int, _Tail] = {}
        self._order: deque[tuple[int, _Tail, int, int]] = deque()
        """(ledger id, tail, entries, bytes) as they were added; the tails of dropped ledgers are empty."""

    def add(self, ledger_id: int, first: int, entries: Sequence[bytes], size: int) -> None:
        """Keep a run of ``size`` bytes; what the ledger has here must end where it starts, or is dropped."""
        tail = self._tails.get(ledger_id)
        if tail is None or tail.first + len(tail.entries) != first:
            self.drop(ledger_id)
            tail = self._tails[ledger_id] = _Tail(first)
        tail.entries.extend(entries)
        tail.size_bytes += size
        self.size_bytes += size
        self._order.append((ledger_id, tail, len(entries), size))
        if self.size_bytes > self._max_bytes:
            self._evict()

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
            self.size_bytes -= tail.size_bytes
            tail.entries.clear()

    def _evict(self) -> None:
        target = self._max_bytes - self._max_bytes // _EVICT_FRACTION
        evicted: dict[int, int] = {}
        while self.size_bytes > target and len(self._order) > 1:
            ledger_id, tail, count, size = self._order.popleft()
            if self._tails.get(ledger_id) is tail:
                tail.size_bytes -= size
                self.size_bytes -= size
                evicted[ledger_id] = evicted.get(ledger_id, 0) + count
        for ledger_id, count in evicted.items():
            tail = self._tails[ledger_id]
            del tail.entries[:count]
            tail.first += count
            if not tail.entries:
                del self._tails[ledger_id]


def within(entries: list[bytes], max_bytes: int) -> list[bytes]:
    """Return the leading entries that together fit ``max_bytes``, but at least the first."""
    if sum(map(len, entries)) <= max_bytes:
        return entries
    fitting = sum(size <= max_bytes for size in accumulate(map(len, entries)))
    return entries[: max(fitting, 1)]
