"""Ranges: the fewest that hold given entries."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from magnetar.cursor.ranges import Range, ranges_of


@given(st.lists(st.integers(0, 40)))
def test_ranges_hold_the_entries_and_no_others(entry_ids: list[int]) -> None:
    ranges = ranges_of(5, entry_ids)
    held = [entry_id for first, last in ranges for entry_id in range(first.entry_id, last.entry_id + 1)]
    assert held == sorted(set(entry_ids))
    assert all(first.ledger_id == last.ledger_id == 5 for first, last in ranges)
    assert all(before.last.entry_id + 1 < after.first.entry_id for before, after in pairwise(ranges))


def test_entries_in_any_order_make_one_range() -> None:
    assert ranges_of(5, [3, 1, 2, 2]) == [Range((5, 1), (5, 3))]  # type: ignore[arg-type]  # a position is a tuple
    assert ranges_of(5, []) == []
