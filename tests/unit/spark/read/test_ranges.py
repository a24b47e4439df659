"""Ranges and their division among tasks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.read.ranges import TASK_BYTES, Ledger, Range, clipped, divided, steps_back, tasks

TOPIC = "persistent://public/default/orders"

ledger_lists = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5_000)), min_size=1, max_size=6).map(
    lambda sizes: [Ledger(3 * number, entries, size) for number, (entries, size) in enumerate(sizes)]
)
positions = st.builds(Position, st.integers(-1, 20), st.integers(-1, 60))


def held(ledgers: list[Ledger], start: Position, end: Position) -> list[Position]:
    every = [Position(ledger.ledger_id, entry) for ledger in ledgers for entry in range(ledger.entries)]
    return [position for position in every if start <= position < end]


@given(ledger_lists, positions, positions)
def test_the_clipped_parts_hold_the_entries_of_the_range(ledgers: list[Ledger], start: Position, end: Position) -> None:
    found = [
        Position(first.ledger_id, entry)
        for first, last, _ in clipped(ledgers, start, end)
        for entry in range(first.entry_id, last.entry_id)
    ]
    assert found == held(ledgers, start, end)


@given(ledger_lists, positions, st.integers(1, 200))
def test_steps_back_pass_that_many_entries(ledgers: list[Ledger], position: Position, count: int) -> None:
    before = held(ledgers, EARLIEST, position)
    expected = before[-count:][0] if before else position
    assert steps_back(ledgers, position, count) == expected


@given(ledger_lists, positions, positions, st.integers(1, 10))
def test_the_divided_ranges_are_adjacent_and_cover_the_range(
    ledgers: list[Ledger], start: Position, end: Position, parts: int
) -> None:
    ranges = divided(Range(TOPIC, start, end), ledgers, parts)
    if not held(ledgers, start, end):
        assert ranges == []
        return
    assert 1 <= len(ranges) <= parts
    last = held(ledgers, start, end)[-1]
    assert (ranges[0].start, ranges[-1].end) == (start, Position(last.ledger_id, last.entry_id + 1))
    assert sum(one.entries for one in ranges) == len(held(ledgers, start, end))
    assert all(one.end == following.start for one, following in pairwise(ranges))
    assert all(held(ledgers, one.start, one.end) for one in ranges) or parts > 1


def test_a_large_topic_is_read_by_many_tasks() -> None:
    ledgers = [Ledger(1, 1_000, 5 * TASK_BYTES), Ledger(2, 1_000, 5 * TASK_BYTES)]
    ranges = tasks({Range(TOPIC, EARLIEST, LATEST): ledgers}, 1)
    assert len(ranges) == 10
    sizes = [sum(size for _, _, size in clipped(ledgers, one.start, one.end)) for one in ranges]
    assert max(sizes) - min(sizes) <= TASK_BYTES // 50


def test_the_least_number_of_tasks_is_shared_by_bytes() -> None:
    large, small = Range("persistent://public/default/large", EARLIEST, LATEST), Range(TOPIC, EARLIEST, LATEST)
    ranges = tasks({large: [Ledger(1, 900, 9_000)], small: [Ledger(2, 100, 1_000)]}, 10)
    assert [one.topic for one in ranges].count(large.topic) == 9
    assert [one.topic for one in ranges].count(small.topic) == 1
