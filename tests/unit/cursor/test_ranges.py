"""Ranges: the minimum number for given entries."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.cursor.ranges import Range, gaps, ranges_of


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


class HeapUse(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the heap's size is known with glibc only")
def test_a_search_that_finds_nothing_leaves_nothing_in_memory() -> None:
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = HeapUse
    bitmap = BitMap([1, 2, 3])
    assert list(gaps(bitmap, 0, 9)) == [(0, 0), (4, 9)]
    before = mallinfo().uordblks
    for _ in range(10_000):
        list(gaps(bitmap, 4, 9))
        list(gaps(BitMap(), 4, 9))
    assert mallinfo().uordblks - before < 100_000
