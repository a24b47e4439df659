"""Rates from counters."""

from __future__ import annotations

from magnetar.base.rates import Rates


def test_the_rate_is_the_increase_between_two_updates() -> None:
    rates = Rates(2)
    assert rates.per_second == (0, 0)
    rates.update(100, 5, 50)
    assert rates.per_second == (0, 0)
    rates.update(110, 25, 1050)
    assert rates.per_second == (2, 100)
    rates.update(120, 25, 1050)
    assert rates.per_second == (0, 0)


def test_a_counter_that_starts_again_has_no_negative_rate() -> None:
    rates = Rates(1)
    rates.update(0, 50)
    rates.update(10, 0)
    assert rates.per_second == (0,)
    rates.update(20, 30)
    assert rates.per_second == (3,)


def test_two_updates_at_one_time_keep_the_rate() -> None:
    rates = Rates(1)
    rates.update(0, 0)
    rates.update(10, 10)
    rates.update(10, 20)
    assert rates.per_second == (1,)
