"""Statistics of a log."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.statistics import ENTRY_SIZE_BOUNDS, WRITE_LATENCY_BOUNDS_US, LedgerStatistics


def test_an_interval_without_entries_has_no_histogram() -> None:
    statistics = LedgerStatistics()
    statistics.written([10], 0.0004)
    statistics.refresh(0, 1)
    assert statistics.write_latencies.row == (1, *[0] * len(WRITE_LATENCY_BOUNDS_US), 1, 400)
    statistics.refresh(10, 1)
    assert statistics.write_latencies.row == statistics.entry_sizes.row == ()


def test_bounds_are_inclusive() -> None:
    statistics = LedgerStatistics()
    statistics.written([128], 0.001)
    statistics.written([129], 2.0)
    statistics.refresh(0, 2)
    assert list(statistics.entry_sizes.row[:2]) == [1, 1]
    assert list(statistics.write_latencies.row[:2]) == [0, 1]
    assert statistics.write_latencies.row[len(WRITE_LATENCY_BOUNDS_US)] == 1


@given(st.lists(st.lists(st.integers(0, 3_000_000) | st.integers(0, 700), min_size=1, max_size=400), max_size=8))
def test_runs_are_counted_as_their_entries(runs: list[list[int]]) -> None:
    statistics = LedgerStatistics()
    for sizes in runs:
        statistics.written(sizes, 0.01)
    statistics.refresh(0, 0)
    expected = Counter(bisect_left(ENTRY_SIZE_BOUNDS, size) for sizes in runs for size in sizes)
    *counts, count, total = statistics.entry_sizes.row or [0] * (len(ENTRY_SIZE_BOUNDS) + 3)
    assert counts == [expected[bucket] for bucket in range(len(ENTRY_SIZE_BOUNDS) + 1)]
    assert count == expected.total()
    assert round(total) == sum(map(sum, runs))


def test_rates() -> None:
    statistics = LedgerStatistics()
    statistics.refresh(0, 0)
    statistics.cache_hits, statistics.cache_misses = 20, 5
    statistics.refresh(10, 100)
    assert statistics.rates.per_second == (10, 2, 0.5)
