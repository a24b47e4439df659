from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.demo.tally import Entry, Repeats, Tally

A: Entry = (7, "3:1")
A_SENT_TWICE: Entry = (7, "3:9")
B: Entry = (8, "3:2")


def test_single_deliveries_are_no_repetitions() -> None:
    tally = Tally()
    tally.deliver(0, A)
    tally.deliver(1, B)
    assert tally.delivered == 2
    assert tally.outstanding == 2
    assert tally.repeats(1) == Repeats(0, 0)


def test_acknowledged_and_come_again_is_a_duplicate_of_the_stage_where_it_came_again() -> None:
    tally = Tally()
    tally.deliver(0, A)
    tally.acknowledge(A, 10.0)
    tally.deliver(2, A)
    assert (tally.repeats(1), tally.repeats(2)) == (Repeats(0, 0), Repeats(1, 0))
    assert tally.duplicates == 1


def test_unacknowledged_and_come_again_is_a_redelivery() -> None:
    tally = Tally()
    tally.deliver(0, A)
    tally.deliver(1, A)
    assert tally.repeats(1) == Repeats(0, 1)
    assert (tally.unacknowledged(0), tally.unacknowledged(1)) == (0, 1)


def test_a_flight_that_was_sent_twice_is_two_entries() -> None:
    tally = Tally()
    tally.deliver(0, A)
    tally.acknowledge(A, 10.0)
    tally.deliver(0, A_SENT_TWICE)
    assert tally.delivered == 1
    assert tally.outstanding == 1
    assert tally.duplicates == 0


def test_counts_what_was_acknowledged_from_a_moment_on() -> None:
    tally = Tally()
    for number, at_ms in enumerate([10.0, 20.0, 30.0]):
        entry = (number, f"1:{number}")
        tally.deliver(1, entry)
        tally.acknowledge(entry, at_ms)
    assert [tally.acknowledged_since(1, state) for state in (10.0, 20.0, 20.5, 31.0)] == [3, 2, 1, 0]
    assert tally.acknowledged_since(0, 0.0) == 0


def test_the_first_acknowledgement_stands() -> None:
    tally = Tally()
    tally.deliver(1, A)
    tally.acknowledge(A, 10.0)
    tally.acknowledge(A, 99.0)
    assert tally.acknowledged_since(1, 50.0) == 0
    assert tally.outstanding == 0


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 4)),
        max_size=60,
    )
)
def test_agrees_with_counting_by_hand(events: list[tuple[bool, int, int]]) -> None:
    tally, history = Tally(), dict[Entry, list[str]]()
    duplicates = redelivered = 0
    for is_delivery, stage, number in events:
        entry = (number, f"1:{number}")
        past = history.setdefault(entry, [])
        if is_delivery:
            duplicates += "delivered" in past and "acknowledged" in past
            redelivered += "delivered" in past and "acknowledged" not in past
            past.append("delivered")
            tally.deliver(stage, entry)
        elif past:
            past.append("acknowledged")
            tally.acknowledge(entry, 0.0)
    repeats = [tally.repeats(stage) for stage in range(3)]
    assert sum(each.duplicates for each in repeats) == tally.duplicates == duplicates
    assert sum(each.redelivered for each in repeats) == redelivered
    assert tally.delivered == sum("delivered" in past for past in history.values())
    assert tally.outstanding == sum("acknowledged" not in past for past in history.values() if past)
