"""Quantiles of the newest durations."""

from __future__ import annotations

from magnetar.base.histogram import RECENT_MAX, RecentDurations

SHARES = (0.0, 0.5, 0.99, 1.0)


def test_without_durations_there_are_no_quantiles() -> None:
    assert RecentDurations().quantiles(SHARES) == []


def test_one_duration_is_each_quantile() -> None:
    durations = RecentDurations()
    durations.observe(3)
    assert durations.quantiles(SHARES) == [3] * len(SHARES)


def test_quantiles_are_those_of_the_newest_durations() -> None:
    durations = RecentDurations()
    for _ in range(10):
        durations.observe(1_000_000)
    for number in reversed(range(RECENT_MAX)):
        durations.observe(number)
    assert durations.quantiles(SHARES) == [0, RECENT_MAX // 2, RECENT_MAX * 99 // 100, RECENT_MAX - 1]
    assert durations.count == RECENT_MAX + 10
    assert durations.sum_s == 10_000_000 + RECENT_MAX * (RECENT_MAX - 1) / 2
