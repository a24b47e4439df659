from __future__ import annotations

import pytest

from magnetar.base.position import Position
from magnetar.sim.content import Draft, build, is_same, text_in
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.entries.origin import Origin, stamp

DRAFTS = [
    Draft(1),
    Draft(1, members=3, key="a"),
    Draft(1, is_batch=True),
    Draft(1, members=2, is_compressed=True, names_highest=False),
    Draft(1, chunks=3),
]
STAMP = Origin("jfk", Position(1, 2))


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_text_of_an_entry_is_found_again_also_behind_a_link(draft: Draft) -> None:
    for number, metadata in enumerate(draft.metadata("p1", 7)):
        entry = build(metadata, f"text-{number}")
        stamped = stamp(entry, STAMP)
        assert text_in(parse_metadata(stamped), stamped) == f"text-{number}"
        assert is_same(entry, entry)
        assert is_same(entry, stamped)


def test_an_altered_entry_is_not_the_same() -> None:
    (metadata,) = Draft(1, members=2).metadata("p1", 7)
    entry = build(metadata, "text")
    shorter = parse_metadata(entry)
    shorter.ClearField("highest_sequence_id")
    assert not is_same(entry, build(metadata, "other"))
    assert not is_same(entry, build_entry(shorter, bytes(payload_of(entry))))


def test_a_text_that_cannot_be_read_is_empty() -> None:
    (metadata,) = Draft(1, members=2, is_compressed=True).metadata("p1", 7)
    entry = build_entry(metadata, b"not compressed")
    assert not text_in(metadata, entry)


def test_padding_makes_an_entry_larger_and_leaves_its_text() -> None:
    (metadata,) = Draft(publish_time_ms=1, padding=5000).metadata("p1", 3)
    entry = build(metadata, "p1-3")
    assert len(entry) > 5000
    assert text_in(parse_metadata(entry), entry) == "p1-3"
