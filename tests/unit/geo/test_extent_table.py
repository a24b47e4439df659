"""Compressed blocks of extents: equal to plain lists, with a fraction of the memory."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.geo.origins import extent_table
from magnetar.geo.origins.extent_table import ExtentTable
from magnetar.geo.origins.index import OriginIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

LEDGER_ENTRIES = 7


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Compress every two extents, and keep one block unpacked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extent_table, "BLOCK_EXTENTS", 2)
        patch.setattr(extent_table, "UNPACKED_MAX", 1)
        yield


def place(number: int) -> Position:
    return Position(1 + number // LEDGER_ENTRIES, number % LEDGER_ENTRIES)


class Twin:
    """A table and plain lists with the same contents."""

    def __init__(self) -> None:
        """Begin empty."""
        self.table = ExtentTable()
        self.rows: list[tuple[Position, Position, int]] = []
        self.number = 0

    def append(self, step: int) -> None:
        """Append an extent after a gap."""
        self.number += step
        row = place(self.number), place(3 * self.number), 10 * self.number
        self.rows.append(row)
        self.table.append(*row)

    def grow(self, count: int) -> None:
        """Extend the last extent, if there is one."""
        if self.rows:
            local, origin, through = self.rows[-1]
            self.rows[-1] = local, origin, through + count
            self.table.grow_last(count)

    def trim(self, count: int) -> None:
        """Remove the oldest extents."""
        count = min(count, len(self.rows))
        del self.rows[:count]
        self.table.delete_first(count)

    def cut(self, count: int) -> None:
        """Remove the newest extents."""
        kept = max(0, len(self.rows) - count)
        del self.rows[kept:]
        self.table.keep_first(kept)

    def check(self) -> None:
        """Compare all queries."""
        table, rows = self.table, self.rows
        assert len(table) == len(rows)
        for index, (local, origin, through) in enumerate(rows):
            assert (table.local(index), table.origin(index), table.through(index)) == (local, origin, through)
            assert table.row(index) == (*local, *origin, through)
            if index:
                assert table.through_before(index, -1) == rows[index - 1][2]
        if rows:
            assert (table.local(-1), table.origin(-1), table.through(-1)) == rows[-1]
        for number in range(self.number + 3):
            locally = sum(local <= place(number) for local, _, _ in rows) - 1
            assert table.local_at_or_below(place(number)) == locally
            at_origin = sum(origin <= place(3 * number) for _, origin, _ in rows) - 1
            assert table.origin_at_or_below(place(3 * number)) == at_origin
        assert len(table._unpacked) <= 1


@given(
    st.lists(
        st.one_of(
            *[st.tuples(st.just(Twin.append), st.integers(1, 4))] * 3,
            st.tuples(st.sampled_from([Twin.grow, Twin.trim, Twin.cut]), st.integers(0, 5)),
        ),
        max_size=30,
    )
)
def test_it_answers_as_plain_lists_do(steps: list[tuple[object, int]]) -> None:
    twin = Twin()
    for change, number in steps:
        change(twin, number)  # type: ignore[operator]
        twin.check()


def test_alternating_origins_take_few_bytes_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent_table, "BLOCK_EXTENTS", 512)
    monkeypatch.setattr(extent_table, "UNPACKED_MAX", 4)
    changes = 20_000
    tracemalloc.start()
    try:
        index, at, other = OriginIndex("ewr"), 0, 0
        for number in range(changes):
            own, theirs = 1 + number % 3, 1 + number % 5
            index.append("ewr", Position(5, at), own, Position(5, at))
            index.append("jfk", Position(9, other), theirs, Position(5, at + own), Position(9, other - 1))
            at, other = at + own + theirs, other + theirs
        for entry_id in range(0, at, at // 100):
            assert index.origin_of(Position(5, entry_id)) is not None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index) == 2 * changes
    assert held < 2 * changes * 10 + 400_000, "what is not packed takes 42 bytes for each"
