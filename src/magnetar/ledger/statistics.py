"""Statistics of one topic's log: durations of writes, sizes of entries, and reads for dispatch."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from magnetar.base.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITE_LATENCY_BOUNDS_US = (500, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000)
ENTRY_SIZE_BOUNDS = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""Upper bounds of the buckets, inclusive, as in Pulsar; the last bucket of each has no bound."""


class Buckets:
    """Numbers of values by size. Each value is in one bucket, as in Pulsar's metrics."""

    __slots__ = ("_bounds", "_counting", "_summing", "row")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin empty."""
        self._bounds = bounds
        self._counting: list[int] | None = None
        """Counts since the last ``refresh``; None if there are none, since most topics are idle."""
        self._summing = 0.0
        self.row: Sequence[float] = ()
        """The last interval: the count of each bucket, of all, and the sum; empty if no value was added."""

    def add(self, value: float, count: int = 1) -> None:
        """Add a value ``count`` times."""
        counting = self._counting
        if counting is None:
            counting = self._counting = [0] * (len(self._bounds) + 1)
        counting[bisect_left(self._bounds, value)] += count
        self._summing += value * count

    def refresh(self) -> None:
        """End an interval, and begin the next one."""
        counts = self._counting
        self.row = () if counts is None else (*counts, sum(counts), self._summing)
        self._counting, self._summing = None, 0.0


class LedgerStatistics:
    """Statistics of one log since the topic was loaded, and of the last interval. Used on the event loop's thread."""

    __slots__ = ("cache_hits", "cache_misses", "entry_sizes", "rates", "write_latencies")

    def __init__(self) -> None:
        """Begin at 0."""
        self.cache_hits = 0
        """Entries that were read from memory for dispatch."""
        self.cache_misses = 0
        """Entries that were read from the medium for dispatch."""
        self.write_latencies = Buckets(WRITE_LATENCY_BOUNDS_US)
        """Microseconds from the append of an entry until it was durable."""
        self.entry_sizes = Buckets(ENTRY_SIZE_BOUNDS)
        """Bytes of appended entries."""
        self.rates = Rates(3)
        """Rates of entries written, read from memory, and read from the medium."""

    def written(self, sizes: Sequence[int], seconds: float) -> None:
        """Note a run of entries with these sizes that became durable ``seconds`` after its append."""
        count = len(sizes)
        self.write_latencies.add(seconds * 1_000_000, count)
        if count == 1:
            self.entry_sizes.add(sizes[0])
            return
        smallest, largest = min(sizes), max(sizes)
        if bisect_left(ENTRY_SIZE_BOUNDS, smallest) == bisect_left(ENTRY_SIZE_BOUNDS, largest):
            self.entry_sizes.add(sum(sizes) / count, count)
        else:
            for size in sizes:
                self.entry_sizes.add(size)

    def refresh(self, now: float, entries_written: int) -> None:
        """End an interval at ``now`` (monotonic seconds)."""
        self.rates.update(now, entries_written, self.cache_hits, self.cache_misses)
        self.write_latencies.refresh()
        self.entry_sizes.refresh()
