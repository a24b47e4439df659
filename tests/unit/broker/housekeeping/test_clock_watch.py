"""A wall clock that jumps is distrusted until it returns or stays stable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.housekeeping.clock_watch import GRACE_S, TOLERANCE_S, ClockWatch

NOW = 1_700_000_000.0
YEAR_S = 365 * 86_400.0


def test_a_clock_that_runs_is_trusted() -> None:
    watch = ClockWatch(NOW, 0.0)
    assert [watch.jump(NOW + seconds, seconds) for seconds in (0.0, 60.0, YEAR_S)] == [0.0, 0.0, 0.0]


def test_a_clock_that_drifts_slowly_is_trusted() -> None:
    watch = ClockWatch(NOW, 0.0)
    assert not any(watch.jump(NOW + hour * 3650.0, hour * 3600.0) for hour in range(100))


def test_a_jump_is_doubted_until_it_is_taken_back() -> None:
    watch = ClockWatch(NOW, 0.0)
    assert watch.jump(NOW + YEAR_S + 10, 10.0) == YEAR_S
    assert watch.jump(NOW + YEAR_S + 20, 20.0) == YEAR_S
    assert watch.jump(NOW + 30, 30.0) == 0.0


def test_a_clock_that_keeps_its_new_time_is_trusted_again() -> None:
    watch = ClockWatch(NOW, 0.0)
    assert watch.jump(NOW - YEAR_S, 10.0) < 0
    assert watch.jump(NOW - YEAR_S + GRACE_S - 1, GRACE_S + 9) < 0
    assert watch.jump(NOW - YEAR_S + GRACE_S, GRACE_S + 10) == 0.0
    assert watch.jump(NOW - YEAR_S + GRACE_S + 60, GRACE_S + 70) == 0.0


def test_a_second_jump_is_doubted_anew() -> None:
    watch = ClockWatch(NOW, 0.0)
    watch.jump(NOW + YEAR_S, 0.0)
    assert watch.jump(NOW + 2 * YEAR_S + GRACE_S - 1, GRACE_S - 1) == 2 * YEAR_S
    assert watch.jump(NOW + 2 * YEAR_S + GRACE_S, GRACE_S) == 2 * YEAR_S


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(-TOLERANCE_S + 1, TOLERANCE_S - 1)), max_size=20))
def test_a_clock_that_is_corrected_a_little_now_and_then_is_trusted(steps: list[tuple[float, float]]) -> None:
    watch, monotonic, wall = ClockWatch(NOW, 0.0), 0.0, NOW
    for elapsed, off in steps:
        monotonic, wall = monotonic + elapsed, wall + elapsed + off
        assert watch.jump(wall, monotonic) == 0.0
