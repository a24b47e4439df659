"""Bounds of append times, compared with the exact times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.ledger.append_times import WINDOW_S, WINDOWS_MAX, AppendTimes

STEPS = st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 3), st.booleans()), min_size=1, max_size=60)


def appended(steps: list[tuple[float, int, bool]]) -> tuple[AppendTimes, list[tuple[Position, float]]]:
    """Append runs of entries after pauses, each in the last ledger or a new one; return the exact times too."""
    times, exact, now, ledger_id, entry_id = AppendTimes(), [], 0.0, 1, 0
    for pause, count, is_rollover in steps:
        now += pause
        if is_rollover:
            ledger_id, entry_id = ledger_id + 1, 0
        times.note(Position(ledger_id, entry_id), now)
        for _ in range(count):
            exact.append((Position(ledger_id, entry_id), now))
            entry_id += 1
    return times, exact


@given(STEPS)
def test_no_entry_is_older_than_it_is_and_none_seems_younger_by_more_than_a_window(
    steps: list[tuple[float, int, bool]],
) -> None:
    times, exact = appended(steps)
    for position, at in exact:
        bound = times.bound_of(position)
        assert bound is not None
        assert at <= bound <= at + WINDOW_S


@given(STEPS, st.floats(-1.0, 310.0), st.booleans())
def test_entries_before_the_first_one_since_a_time_are_older(
    steps: list[tuple[float, int, bool]], time: float, inclusive: bool
) -> None:
    times, exact = appended(steps)
    first = times.first_since(time, inclusive=inclusive)
    for position, at in exact:
        if first is None or position < first:
            assert at < time or (at == time and not inclusive)
        else:
            assert at + WINDOW_S >= time


@given(STEPS, st.integers(0, 59))
def test_remaining_entries_keep_their_bounds_after_trimming(steps: list[tuple[float, int, bool]], at: int) -> None:
    times, exact = appended(steps)
    left = exact[min(at, len(exact) - 1) :]
    bounds = [times.bound_of(position) for position, _ in left]
    times.trim(left[0][0])
    assert [times.bound_of(position) for position, _ in left] == bounds
    assert len(times) <= len(left)


def test_of_what_came_before_nothing_is_known() -> None:
    times = AppendTimes()
    assert (times.bound_of(Position(1, 0)), times.first_since(0.0)) == (None, None)
    times.note(Position(2, 0), 1.0)
    assert times.bound_of(Position(1, 9)) is None


def test_windows_are_bounded_and_bounds_of_a_year_are_right_to_five_percent() -> None:
    times, now, step_s = AppendTimes(), 0.0, 600.0
    exact = []
    for entry_id in range(52_560):
        now += step_s
        exact.append(now)
        times.note(Position(1, entry_id), now)
        assert len(times) <= WINDOWS_MAX
    for entry_id, at in enumerate(exact):
        bound = times.bound_of(Position(1, entry_id))
        assert bound is not None
        assert at <= bound
        assert bound - at <= 0.05 * (now - at)


def test_a_bound_that_was_read_from_the_disk_never_goes_back() -> None:
    times = AppendTimes()
    times.begin_window(Position(1, 0), 10.0)
    times.begin_window(Position(2, 0), 5.0)
    assert times.bound_of(Position(2, 0)) == 10.0
