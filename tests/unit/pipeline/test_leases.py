from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.pipeline import limits
from magnetar.pipeline.leases import TURNS, Schedule

lease_seconds = st.floats(limits.LEASE_SECONDS_MIN, 120)
now = st.floats(1_700_000_000, 2_000_000_000)


def test_a_task_starts_warm_before_its_slot() -> None:
    schedule = Schedule(30)
    assert schedule.warm_up_seconds == limits.WARM_UP_SECONDS
    assert schedule.due(0, 56.9) is None
    assert schedule.due(0, 57.0) == 2
    assert schedule.due(1, 57.0) is None
    assert (schedule.start(2), schedule.end(2), schedule.hard_end(2)) == (60, 90, 114)


def test_a_short_lease_has_a_short_warm_up() -> None:
    assert Schedule(4).warm_up_seconds == 1


@given(lease_seconds, now)
def test_exactly_one_query_is_due_at_any_time(seconds: float, at: float) -> None:
    schedule = Schedule(seconds)
    leases = [lease for turn in range(TURNS) if (lease := schedule.due(turn, at)) is not None]
    assert len(leases) == 1
    (lease,) = leases
    assert schedule.start(lease) - schedule.warm_up_seconds <= at + 1e-3
    assert at < schedule.end(lease)


@given(lease_seconds, now, st.integers(0, TURNS - 1))
def test_a_task_is_over_before_its_query_is_due_again(seconds: float, at: float, turn: int) -> None:
    schedule = Schedule(seconds)
    starts = schedule.next_start(turn, at)
    lease = schedule.due(turn, starts + 1e-3)
    assert at < starts
    assert lease is not None
    assert lease % TURNS == turn
    assert schedule.end(lease) < schedule.hard_end(lease) < schedule.next_start(turn, starts + 1e-3)


def test_a_successor_that_never_comes_leaves_no_hole_until_the_next_turn() -> None:
    schedule = Schedule(30)
    assert schedule.next_start(0, schedule.start(2)) - schedule.hard_end(2) == pytest.approx(3)
