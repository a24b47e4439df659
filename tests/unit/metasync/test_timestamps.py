from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RequestError
from magnetar.metasync.timestamps import COUNTER_MAX, FUTURE_MAX_S, HybridClock, Timestamp, check_time

times = st.integers(0, 1_000)


@given(st.lists(times), st.lists(st.tuples(times, st.integers(0, 5))))
def test_each_timestamp_of_a_cluster_is_newer_than_all_that_it_gave_or_saw(
    nows: list[int], seen: list[tuple[int, int]]
) -> None:
    clock, known = HybridClock("ewr"), list[Timestamp]()
    for at, now in enumerate(nows):
        for time_ms, counter in seen[at : at + 1]:
            known.append(Timestamp(time_ms, counter, "jfk"))
            clock.observe(known[-1])
        timestamp = clock.next(now)
        assert all(each < timestamp for each in known)
        known.append(timestamp)


def test_a_timestamp_is_the_time_of_the_wall_clock_while_that_is_ahead() -> None:
    clock = HybridClock("ewr")
    assert [clock.next(5), clock.next(5), clock.next(3), clock.next(6)] == [
        Timestamp(5, 0, "ewr"),
        Timestamp(5, 1, "ewr"),
        Timestamp(5, 2, "ewr"),
        Timestamp(6, 0, "ewr"),
    ]


def test_a_clock_continues_after_a_restart() -> None:
    assert HybridClock("ewr", Timestamp(9, 3, "jfk")).next(4) == Timestamp(9, 4, "ewr")


def test_a_full_counter_moves_the_time() -> None:
    assert HybridClock("ewr", Timestamp(9, COUNTER_MAX, "jfk")).next(4) == Timestamp(10, 0, "ewr")


@given(*[st.builds(Timestamp, st.integers(0, 3), st.integers(0, 2), st.sampled_from("abc"))] * 3)
def test_timestamps_are_totally_ordered(one: Timestamp, other: Timestamp, third: Timestamp) -> None:
    assert (one < other) + (one == other) + (other < one) == 1
    if one < other < third:
        assert one < third


def test_a_timestamp_far_in_the_future_is_refused() -> None:
    limit_ms = int(FUTURE_MAX_S * 1000)
    check_time(Timestamp(limit_ms, 0, "jfk"), 0)
    with pytest.raises(RequestError, match="an edit of cluster jfk is 3601 s ahead of the clock here, more than 3600"):
        check_time(Timestamp(limit_ms + 1_000, 0, "jfk"), 0)


@pytest.mark.parametrize(
    "value", [None, [], [1, 2], [1, 2, ""], [-1, 0, "a"], [1, -1, "a"], [1, 2**31, "a"], ["1", 0, "a"], [True, 0, "a"]]
)
def test_what_is_no_timestamp_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not the timestamp of an edit"):
        Timestamp.from_json(value)
