"""The memory of an origin's extents (docs/guides/storage.md), which trimming frees."""

from __future__ import annotations

import gc
import tracemalloc
from functools import cache

import pytest

from magnetar.base.position import Position
from magnetar.geo.origins.extent_table import BLOCK_EXTENTS, ExtentTable
from magnetar.geo.origins.extents import Track

EXTENTS = 50 * BLOCK_EXTENTS
UNPACKED_BLOCK_BYTES = 30_000
"""More than the size of an unpacked block."""

OURS = "*/magnetar/geo/*"
"""The measured code."""

END = Position(7, 2 * EXTENTS)


def a_track(*, with_floors: bool = False) -> Track:
    """Return another cluster's entries that alternate with local ones, as with two active producers."""
    track = Track(None)
    for number in range(EXTENTS):
        entry_id = 2 * number
        # the entry in between is not meant for this cluster, or does not exist
        floor = entry_id - 1 if with_floors else entry_id - 2
        track.append(Position(9, entry_id), 1, Position(7, 2 * number), Position(9, floor))
    return track


@cache
def used_by(*, with_floors: bool, before: Position | None) -> int:
    """Return the bytes of a track after trimming the entries before ``before``."""
    gc.collect()
    tracemalloc.start()
    try:
        track = a_track(with_floors=with_floors)
        if before is not None:
            track.trim(before)
        gc.collect()
        # Threads of earlier tests may allocate memory meanwhile.
        taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(inclusive=True, filename_pattern=OURS)])
        return sum(trace.size for trace in taken.traces)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("with_floors", "bytes_max"), [(False, 6), (True, 250)])
def test_the_memory_of_an_extent(with_floors: bool, bytes_max: int) -> None:
    assert used_by(with_floors=with_floors, before=None) / EXTENTS < bytes_max


@pytest.mark.parametrize("with_floors", [False, True])
def test_trimming_frees_what_they_take(with_floors: bool) -> None:
    whole = used_by(with_floors=with_floors, before=None)
    half = used_by(with_floors=with_floors, before=Position(7, EXTENTS))
    assert half < 0.7 * whole + UNPACKED_BLOCK_BYTES
    assert used_by(with_floors=with_floors, before=END) < 0.1 * whole


def test_trimming_does_not_look_at_each_extent(monkeypatch: pytest.MonkeyPatch) -> None:
    track, looked_at = a_track(with_floors=True), list[int]()
    origin = ExtentTable.origin

    def counted(table: ExtentTable, index: int) -> Position:
        looked_at.append(index)
        return origin(table, index)

    monkeypatch.setattr(ExtentTable, "origin", counted)
    track.trim(END)
    track.cut_back(Position(7, 0))
    assert len(looked_at) < 10
