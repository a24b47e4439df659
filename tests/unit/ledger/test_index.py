"""The index of the log: which segments nobody needs."""

from __future__ import annotations

from magnetar.ledger.index import LogIndex
from magnetar.ledger.record import Kind, RunHead, encode_control


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
