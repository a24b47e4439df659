"""The index of the log: unused segments and runs."""

from __future__ import annotations

from magnetar.ledger.segments.index import LogIndex
from magnetar.ledger.segments.record import Kind, RunHead, encode_control


def test_a_segment_dies_with_its_last_entry_or_when_a_later_one_is_sealed() -> None:
    index = LogIndex()
    for segment in range(3):
        index.segments[segment] = {}
    index.apply_run(0, RunHead(7, 0, 1, b"", 10), 0, 50)
    index.mark_sealed(0, index.footer(0, [(50, 20)]))
    assert index.take_dead_segments() == [], "ledger 7 needs it"
    index.apply_control(Kind.DELETE, encode_control(7, 0))
    assert index.take_dead_segments() == [], "its footer is the newest"
    index.mark_sealed(1, index.footer(1, []))
    assert index.take_dead_segments() == [0]
    assert index.take_dead_segments() == [], "nothing changed"
    index.mark_sealed(2, index.footer(2, []))
    assert index.take_dead_segments() == [0, 1], "who asks removes what he is told"


def test_trimmed_runs_leave_the_table_of_a_segment_that_is_written_to() -> None:
    index = LogIndex()
    index.segments[0] = {}
    for number in range(5):
        index.apply_run(0, RunHead(7, 2 * number, 2, b"note", 10), 50 * number, 50)
    (extent,) = index.ledgers[7].extents
    for before, kept in ((1, [0, 2, 4, 6, 8]), (2, [2, 4, 6, 8]), (5, [4, 6, 8]), (8, [8])):
        index.apply_control(Kind.TRIM, encode_control(7, before))
        assert extent.table is not None
        assert list(extent.table.firsts) == kept, before
        assert extent.table.memory_bytes == len(kept) * (32 + 48 + 4)
        assert (extent.first, extent.end, extent.entries_bytes) == (kept[0], 10, 50)
        assert index.ledgers[7].find_gap() is None
    index.apply_control(Kind.TRIM, encode_control(7, 10))
    assert index.segments[0] == {}


def test_the_footer_names_only_the_runs_that_are_left() -> None:
    index = LogIndex()
    index.segments[0] = {}
    for number in range(3):
        index.apply_run(0, RunHead(7, number, 1, b"", 10), 50 * number, 50)
    index.apply_control(Kind.TRIM, encode_control(7, 2))
    (line,) = index.footer(0, [(150, 20)]).extents
    assert (line.first, line.end) == (2, 3)
