"""Receipts and the lag limit, with entry counts as positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.broker.publish.receipt_gate import NO_BOUND, WINDOW_MIN, Bound, ReceiptGate


def at(entries: int) -> Position:
    """Return the position of the ``entries``-th entry; 0 is before the first."""
    return Position(1, entries - 1)


def gate(messages: int = NO_BOUND, seconds: int = NO_BOUND) -> ReceiptGate:
    return ReceiptGate(
        Bound(messages, seconds), lambda after, through: max(0, through.entry_id - after.entry_id), at(0)
    )


def test_no_more_than_the_bound_is_promised() -> None:
    found = gate(messages=10)
    assert found.may_promise(at(10), 0.0)
    assert not found.may_promise(at(11), 0.0)
    found.confirm(at(3), 1.0)
    assert found.may_promise(at(13), 1.0)
    assert not found.may_promise(at(14), 1.0)


@pytest.mark.parametrize("bound", [gate(messages=0), gate(seconds=0)])
def test_a_bound_of_zero_promises_what_is_elsewhere_and_nothing_else(bound: ReceiptGate) -> None:
    assert not bound.may_promise(at(1), 0.0)
    bound.confirm(at(1), 0.0)
    assert bound.may_promise(at(1), 0.0)
    assert not bound.may_promise(at(2), 0.0)


def test_nothing_is_promised_while_something_older_than_the_bound_of_seconds_is_unconfirmed() -> None:
    found = gate(seconds=5)
    found.promised(at(1), 0.0)
    assert found.may_promise(at(2), 4.9)
    found.promised(at(2), 4.9)
    assert not found.may_promise(at(3), 5.0)
    found.confirm(at(1), 6.0)
    assert found.may_promise(at(3), 6.0)
    assert not found.may_promise(at(3), 9.9)


def test_a_link_that_goes_back_leaves_more_at_risk_and_nothing_is_promised_meanwhile() -> None:
    found = gate(messages=2)
    found.confirm(at(5), 0.0)
    assert found.may_promise(at(7), 0.0)
    found.confirm(at(4), 1.0)
    assert found.at_risk(at(7)) == 3
    assert not found.may_promise(at(7), 1.0)


def greedy(bound: ReceiptGate, link_rate: int, seconds: float, step_s: float = 0.01, window: int = 1000) -> list[int]:
    """Return receipts per second of a client with ``window`` in flight, over a link with a constant rate."""
    appended = promised = 0
    confirmed = 0.0
    received = [0] * int(seconds)
    times: list[float] = []
    for number in range(int(seconds / step_s)):
        now = number * step_s
        appended = promised + window
        confirmed = min(appended, confirmed + link_rate * step_s)
        bound.confirm(at(int(confirmed)), now)
        while promised < appended and bound.may_promise(at(promised + 10), now):
            promised += 10
            bound.promised(at(promised), now)
            received[int(now)] += 10
            times += [now] * 10
        unconfirmed = times[int(confirmed) :]
        if bound.bound.messages != NO_BOUND:
            assert len(unconfirmed) <= bound.bound.messages
        if bound.bound.seconds != NO_BOUND and unconfirmed:
            assert times[-1] - unconfirmed[0] <= bound.bound.seconds
    return received


@pytest.mark.parametrize("bound", [gate(messages=2000), gate(seconds=5), gate(messages=2000, seconds=5)])
@pytest.mark.parametrize("rate", [200, 1000, 5000])
def test_receipts_follow_the_rate_of_the_link_without_stops_and_starts(bound: ReceiptGate, rate: int) -> None:
    received = greedy(ReceiptGate(bound.bound, lambda a, b: max(0, b.entry_id - a.entry_id), at(0)), rate, 30.0)
    settled = received[10:]
    assert all(0.8 * rate <= each <= 1.3 * rate for each in settled), received


def test_before_the_rate_is_known_no_more_than_a_little_is_promised() -> None:
    found = gate(seconds=60)
    assert found.may_promise(at(WINDOW_MIN), 0.0)
    assert not found.may_promise(at(WINDOW_MIN + 1), 0.0)


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["append", "confirm", "back"]), st.integers(1, 4)), max_size=40),
)
def test_the_bound_holds_whatever_happens_unless_a_link_goes_back(limit: int, moves: list[tuple[str, int]]) -> None:
    found = gate(messages=limit)
    appended = promised = confirmed = 0
    went_back = False
    for now, (move, count) in enumerate(moves):
        if move == "append":
            appended += count
        elif move == "confirm":
            confirmed = min(appended, confirmed + count)
            went_back = went_back and promised - confirmed > limit
        else:
            confirmed = max(0, confirmed - count)
            went_back = True
        found.confirm(at(confirmed), float(now))
        while promised < appended and found.may_promise(at(promised + 1), float(now)):
            promised += 1
        assert went_back or promised - confirmed <= limit
        assert promised == appended or promised + 1 - confirmed > limit, "and no more is withheld than need be"


def test_a_burst_after_silence_may_use_all_of_the_time_once_the_rate_is_known() -> None:
    found = gate(seconds=60)
    for step in range(100):
        found.confirm(at(10 * (step + 1)), step / 100)
    assert found.may_promise(at(1000 + 47_000), 1.0)
    assert not found.may_promise(at(1000 + 49_000), 1.0)


def test_a_link_that_stands_still_leaves_less_and_less() -> None:
    found = gate(seconds=60)
    found.confirm(at(10_000), 0.0)
    assert [found.may_promise(at(10_000 + 50_000), now) for now in (1.0, 9.0, 10.0)] == [True, True, False]
    assert not found.may_promise(at(10_000 + WINDOW_MIN + 1), 60.0)


def test_the_state_does_not_grow_with_the_number_of_receipts() -> None:
    found = gate(seconds=10)
    for step in range(100_000):
        found.promised(at(step + 2), step / 1000)
        found.confirm(at(step + 1), step / 1000)
    remembered = sum(len(each) for each in (found._promised, found._recent))
    assert remembered <= 2 * 101 + 2
