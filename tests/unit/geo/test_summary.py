from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins import summary as geo_summary
from magnetar.geo.origins.annotation import Annotation, RunExtent, encode_annotation
from magnetar.geo.origins.summary import OriginSummary, Stretch, decode_summary, merged

Run = tuple[int, bytes]


def own(count: int) -> Run:
    return count, b""


def replicated(cluster: str, *extents: RunExtent) -> Run:
    return sum(extent.count for extent in extents), encode_annotation(cluster, extents)


def extent(first: int, count: int, floor: int | None = None) -> RunExtent:
    return RunExtent(Position(7, first), count, Position(7, first - 1 if floor is None else floor))


def summary_of(*runs: Run) -> OriginSummary:
    summary = OriginSummary()
    for run in runs:
        summary.add(*run)
    return summary


def stretches(summary: OriginSummary) -> list[Stretch]:
    data = summary.encode()
    assert data is not None
    found = decode_summary(data, summary.entries)
    assert found is not None
    return found


def entry_by_entry(stretches: list[Stretch]) -> list[tuple[str, Position, Position] | None]:
    """Return the origin and floor of each entry."""
    found: list[tuple[str, Position, Position] | None] = []
    for count, origin in stretches:
        if origin is None:
            found += [None] * count
            continue
        for (ledger_id, first), length, floor in origin.extents:
            for number in range(length):
                at = Position(ledger_id, first + number)
                found.append((origin.cluster, at, Position(ledger_id, at.entry_id - 1) if number else floor))
    return found


def test_runs_that_go_on_become_one_stretch() -> None:
    summary = summary_of(own(1), own(2), replicated("jfk", extent(0, 2)), replicated("jfk", extent(2, 3)), own(1))
    assert stretches(summary) == [
        Stretch(3, None),
        Stretch(5, Annotation("jfk", (extent(0, 5),), link_start=False)),
        Stretch(1, None),
    ]
    assert (summary.entries, summary.runs) == (9, 5)


def test_a_gap_in_the_origin_or_in_its_floor_stays() -> None:
    summary = summary_of(replicated("jfk", extent(0, 2)), replicated("jfk", extent(2, 1, floor=0), extent(4, 1)))
    (stretch,) = stretches(summary)
    assert stretch.origin is not None
    assert stretch.origin.extents == (extent(0, 2), extent(2, 1, floor=0), extent(4, 1))


_EXTENTS = st.builds(
    extent, st.integers(0, 9), st.integers(1, 3), st.one_of(st.none(), st.just(EARLIEST.entry_id), st.integers(0, 9))
)
_RUNS = st.lists(
    st.one_of(
        st.builds(own, st.integers(1, 3)),
        st.lists(_EXTENTS, min_size=1, max_size=3).map(lambda extents: replicated("jfk", *extents)),
        st.lists(_EXTENTS, min_size=1, max_size=3).map(lambda extents: replicated("lga", *extents)),
    ),
    max_size=12,
)


@given(_RUNS, st.integers(1, 4))
def test_a_summary_says_of_each_entry_what_its_run_says(runs: list[Run], extents_max: int) -> None:
    summary = summary_of(*runs)
    plain = [stretch for run in runs for stretch in stretches(summary_of(run))]
    assert entry_by_entry(stretches(summary)) == entry_by_entry(plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geo_summary, "STRETCH_EXTENTS_MAX", extents_max)
        cut = list(merged(runs))
    assert entry_by_entry([stretch for _, stretch in cut]) == entry_by_entry(plain)
    assert all(len(stretch.origin.extents) < extents_max + 3 for _, stretch in cut if stretch.origin is not None)
    by_stretches = OriginSummary()
    for count, stretch in cut:
        by_stretches.add_stretch(count, stretch)
    assert (by_stretches.runs, by_stretches.encode()) == (len(runs), summary.encode())


def test_a_summary_takes_no_more_memory_than_it_may_have_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geo_summary, "SUMMARY_BYTES_MAX", 20_000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        summary = OriginSummary()
        for number in range(10_000):
            summary.add(*own(1))
            summary.add(*replicated("jfk", extent(3 * number, 2), extent(3 * number + 2, 1, floor=3 * number)))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before < 200_000, "with the free lists of the interpreter"
    assert summary.encode() is None
    assert (summary.runs, summary.entries) == (20_000, 40_000)


def test_a_summary_is_kept_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [own(1), replicated("jfk", extent(0, 2)), own(1), replicated("jfk", extent(2, 2), extent(5, 1))]
    data = summary_of(*runs).encode()
    assert data is not None
    monkeypatch.setattr(geo_summary, "SUMMARY_BYTES_MAX", len(data))
    assert summary_of(*runs).encode() == data
    monkeypatch.setattr(geo_summary, "SUMMARY_BYTES_MAX", len(data) - 1)
    assert summary_of(*runs).encode() is None


def test_invalid_summaries_are_ignored() -> None:
    summary = summary_of(own(2), replicated("jfk", extent(0, 2)))
    data = summary.encode()
    assert data is not None
    assert decode_summary(data, 5) is None
    assert decode_summary(b"", 0) is None
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        assert decode_summary(bytes(broken), 4) is None
        assert decode_summary(data[:at], 4) is None
