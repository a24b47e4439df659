from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Backoff, Budget, Window


def test_backoff_doubles_up_to_its_maximum_with_jitter_of_a_half() -> None:
    backoff = Backoff(0.2, 30)
    rng = random.Random(1)
    for attempt, whole in enumerate([0.2, 0.4, 0.8, 1.6]):
        assert whole / 2 <= backoff.delay(attempt, rng) <= whole
    assert 15 <= backoff.delay(10_000, rng) <= 30


def measured(budget: Budget, size: int = 100) -> Window:
    """Return a window with a measured entry size and without permits."""
    window = Window(budget)
    window.passed_over(window.grant(), size)
    return window


def test_a_window_asks_for_few_entries_until_it_knows_how_large_entries_are() -> None:
    window = Window(Budget())
    few = limits.WINDOW_ENTRIES_UNMEASURED
    assert window.grant() == few
    for entry in range(few):
        window.arrived(Position(1, entry), 50, is_marker=True)
    assert window.grant() == few, "markers say nothing about entries and take no room from them"
    for entry in range(few):
        window.arrived(Position(2, entry), limits.WINDOW_BYTES // 3)
    assert window.grant() == 3 - few
    window.confirmed(Position(2, few - 1))
    assert window.grant() == 2, "one is promised already"


def test_an_entry_that_is_not_carried_tells_how_large_entries_are() -> None:
    window = Window(Budget())
    for _ in range(window.grant()):
        window.passed_over(1, 100)
    assert window.grant() == limits.WINDOW_ENTRIES_INITIAL


def test_a_window_opens_with_its_initial_credit_and_asks_again_when_half_is_used() -> None:
    window = measured(Budget())
    assert window.grant() == limits.WINDOW_ENTRIES_INITIAL
    assert window.grant() == 0
    half = limits.WINDOW_ENTRIES_INITIAL // 2
    for entry in range(half):
        window.arrived(Position(1, entry), 100)
    assert window.grant() == 0, "everything that was promised is outstanding"
    window.confirmed(Position(1, half - 1))
    assert window.grant() > 0


def test_a_backlog_doubles_the_window_with_each_round_trip_up_to_its_maximum() -> None:
    window = measured(Budget())
    entry = 0
    grants = []
    for _ in range(20):
        grants.append(window.grant())
        for _ in range(grants[-1]):
            window.arrived(Position(1, entry), 10)
            entry += 1
        window.confirmed(Position(1, entry - 1))
    assert grants[:4] == [64, 128, 256, 512]
    assert grants[-1] == limits.WINDOW_ENTRIES_MAX


def test_large_entries_shrink_the_window_to_its_bytes() -> None:
    window = measured(Budget())
    granted = window.grant()
    for entry in range(granted):
        window.arrived(Position(1, entry), limits.WINDOW_BYTES // 4)
    window.confirmed(Position(1, granted - 1))
    assert window.grant() == 4


def test_a_trickle_does_not_grow_the_window() -> None:
    window = Window(Budget())
    window.grant()
    for entry in range(1_000):
        window.arrived(Position(1, entry), 10)
        window.confirmed(Position(1, entry))
        window.grant()
    assert window.grant() == 0
    window.arrived(Position(2, 0), 10)
    window.confirmed(Position(2, 0))
    assert window.grant() <= limits.WINDOW_ENTRIES_INITIAL


def test_a_spent_budget_leaves_one_entry_to_each_topic_that_has_nothing_under_way() -> None:
    budget = Budget()
    greedy, modest = Window(budget), Window(budget)
    greedy.grant()
    greedy.arrived(Position(1, 0), limits.TARGET_BYTES)
    assert budget.spent
    assert greedy.grant() == 0
    assert modest.grant() == 1
    assert modest.grant() == 0
    greedy.close()
    assert not budget.spent


@given(st.lists(st.integers(1, 10_000), max_size=60), st.data())
def test_bytes_in_flight_are_counted_exactly(sizes: list[int], data: st.DataObject) -> None:
    budget = Budget()
    window = Window(budget)
    held: list[int] = []
    for entry, size in enumerate(sizes):
        window.arrived(Position(7, entry), size)
        held.append(size)
        if data.draw(st.booleans()):
            count = data.draw(st.integers(0, len(held)))
            if count:
                assert window.confirmed(Position(7, entry - len(held) + count)) == count
                held = held[count:]
        assert (window.in_flight, window.in_flight_bytes) == (len(held), sum(held))
        assert budget.used == sum(held)
    window.close()
    assert budget.used == 0


def test_batches_use_a_permit_for_each_message_and_may_take_too_many() -> None:
    window = measured(Budget())
    granted = window.grant()
    window.arrived(Position(1, 0), 1000, permits=1000)
    assert window.grant() == 1000 - 1, "what was taken too many, and the window but for the entry under way"
    window.arrived(Position(1, 1), 10, permits=granted - 1)
    assert window.grant() == granted - 2


def test_a_debt_is_paid_even_when_memory_is_short() -> None:
    budget = Budget()
    window = Window(budget)
    window.grant()
    window.passed_over(100, 10)
    budget.used = limits.TARGET_BYTES
    assert window.grant() == 100 - limits.WINDOW_ENTRIES_UNMEASURED + 1
