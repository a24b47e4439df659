"""Statistics of one topic's log: durations of writes, sizes of entries, and reads for dispatch."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from functools import partial
from itertools import chain
from operator import mul
from typing import TYPE_CHECKING

from magnetar.base.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITE_LATENCY_BOUNDS_US = (500, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000)
ENTRY_SIZE_BOUNDS = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""Upper bounds of the buckets, inclusive, as in Pulsar; the last bucket of each has no bound."""


UNCOUNTED_MAX = 1000
"""Maximum number of entries of a topic that wait to be counted, besides the last run."""


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

    def add(self, values: Sequence[float], counts: Sequence[int] | None = None) -> None:
        """Add values, each once or as often as ``counts`` says."""
        counting = self._counting
        if counting is None:
            counting = self._counting = [0] * (len(self._bounds) + 1)
        bucket_of = partial(bisect_left, self._bounds)
        if counts is not None:
            for value, count in zip(values, counts, strict=True):
                counting[bucket_of(value)] += count
            self._summing += sum(map(mul, values, counts))
            return
        lowest = bucket_of(min(values))
        if lowest == bucket_of(max(values)):  # the entries of a topic mostly have similar sizes
            counting[lowest] += len(values)
        else:
            for bucket, count in Counter(map(bucket_of, values)).items():
                counting[bucket] += count
        self._summing += sum(values)

    def refresh(self) -> None:
        """End an interval, and begin the next one."""
        counts = self._counting
        self.row = () if counts is None else (*counts, sum(counts), self._summing)
        self._counting, self._summing = None, 0.0


class LedgerStatistics:
    """Statistics of one log since the topic was loaded, and of the last interval. Used on the event loop's thread."""

    __slots__ = ("_entries", "_runs", "cache_hits", "cache_misses", "entry_sizes", "rates", "write_latencies")

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
        self._runs: list[tuple[float, Sequence[int]]] = []
        self._entries = 0
        """Runs that are not in the histograms yet: seconds and sizes; and the number of their entries."""
        self.rates = Rates(3)
        """Rates of entries written, read from memory, and read from the medium."""

    def written(self, sizes: Sequence[int], seconds: float) -> None:
        """Note a run of entries with these sizes that became durable ``seconds`` after its append."""
        self._runs.append((seconds, sizes))
        self._entries += len(sizes)
        if self._entries >= UNCOUNTED_MAX:
            self._count_runs()

    def _count_runs(self) -> None:
        """Add the noted runs to the histograms: together, so that a single entry costs little."""
        latencies, sizes = zip(*self._runs, strict=True)
        self.write_latencies.add([seconds * 1_000_000 for seconds in latencies], list(map(len, sizes)))
        self.entry_sizes.add(list(chain.from_iterable(sizes)))
        self._runs, self._entries = [], 0

    def refresh(self, now: float, entries_written: int) -> None:
        """End an interval at ``now`` (monotonic seconds)."""
        if self._runs:
            self._count_runs()
        self.rates.update(now, entries_written, self.cache_hits, self.cache_misses)
        self.write_latencies.refresh()
        self.entry_sizes.refresh()
