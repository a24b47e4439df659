from __future__ import annotations

import pytest

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline.connections.reports import Refused
from magnetar.pipeline.rows import Attachment, Carried
from magnetar.pipeline.writing.target_link import Action, State, TargetLink
from magnetar.wire.links import LinkEnd
from magnetar.wire.message_id import Link

TOPIC = "persistent://public/default/t"


def carried(number: int, entry: int) -> Carried:
    return Carried(Attachment(number, "ewr", TOPIC), Position(1, entry), Link(), b"")


def opened(*entries: Carried) -> TargetLink:
    target_link = TargetLink("ewr", TOPIC)
    for entry in entries:
        target_link.offer(entry)
    held, _ = target_link.opened(None)
    for entry in held:
        target_link.sent(entry)
    return target_link


def test_the_first_entry_opens_the_producer_and_waits_with_the_next_ones() -> None:
    target_link = TargetLink("ewr", TOPIC)
    assert target_link.offer(carried(1, 0)) is Action.OPEN
    assert target_link.offer(carried(1, 1)) is Action.HOLD
    held, refused = target_link.opened(None)
    assert (held, refused) == ([carried(1, 0), carried(1, 1)], None)
    assert target_link.offer(carried(1, 2)) is Action.SEND


def test_receipts_name_the_entries_in_the_order_of_their_sends() -> None:
    target_link = opened(carried(1, 0), carried(1, 1))
    assert target_link.outstanding == 2
    assert target_link.receipt(1) == (1, Position(1, 0))
    assert target_link.receipt(2) == (1, Position(1, 1))
    assert target_link.outstanding == 0


@pytest.mark.parametrize("sequence_id", [0, 2])
def test_a_receipt_out_of_order_is_the_targets_fault(sequence_id: int) -> None:
    with pytest.raises(RemoteProtocolError, match="expected 1"):
        opened(carried(1, 0), carried(1, 1)).receipt(sequence_id)


def test_a_gap_is_reported_once_the_new_producer_tells_how_far_the_target_is() -> None:
    target_link = opened(carried(1, 5), carried(1, 6))
    assert target_link.gap("gap: previous=1:4 last=1:2")
    assert not target_link.gap("gap: previous=1:5 last=1:2"), "it is being looked into"
    assert target_link.offer(carried(1, 7)) is Action.DROP
    held, refused = target_link.opened(Position(1, 2))
    assert held == []
    assert refused == Refused(1, "gap: previous=1:4 last=1:2", LinkEnd("", Position(1, 2)))
    assert target_link.offer(carried(1, 8)) is Action.DROP
    assert target_link.offer(carried(2, 3)) is Action.SEND


def test_a_gap_in_entries_in_custody_is_reported_in_positions_of_their_origin() -> None:
    target_link, end = opened(carried(1, 5)), LinkEnd("lga", Position(9, 9))
    assert target_link.gap("gap", end)
    assert target_link.opened(Position(1, 2)) == ([], Refused(1, "gap", end))
    target_link.offer(carried(2, 3))
    target_link.sent(carried(2, 3))
    target_link.gap("gap")
    assert target_link.opened(Position(1, 2))[1] == Refused(2, "gap", LinkEnd("", Position(1, 2)))


def test_a_target_that_holds_nothing_is_sent_everything() -> None:
    target_link = opened(carried(1, 5))
    target_link.gap("gap: previous=1:4 last=-1:-1")
    _, refused = target_link.opened(None)
    assert refused == Refused(1, "gap: previous=1:4 last=-1:-1", LinkEnd("", EARLIEST))


def test_after_a_refusal_only_a_new_attachment_is_taken() -> None:
    target_link = opened(carried(1, 0))
    assert target_link.refused("quota") == Refused(1, "quota")
    assert target_link.state is State.IDLE
    assert target_link.offer(carried(1, 1)) is Action.DROP
    assert target_link.offer(carried(2, 0)) is Action.OPEN


def test_a_refused_producer_refuses_what_waited_for_it() -> None:
    target_link = TargetLink("ewr", TOPIC)
    target_link.offer(carried(3, 0))
    assert target_link.refused("busy") == Refused(3, "busy")
    assert target_link.outstanding == 0


def test_an_idle_producer_that_goes_away_has_the_reader_attach_again() -> None:
    target_link = opened(carried(1, 0))
    target_link.receipt(1)
    assert target_link.refused("closed") == Refused(1, "closed")
    assert target_link.refused("closed again") is None
    assert target_link.offer(carried(1, 1)) is Action.DROP
    assert target_link.offer(carried(2, 1)) is Action.OPEN


def test_a_gap_whose_new_producer_is_refused_ends_the_attachment() -> None:
    target_link = opened(carried(1, 5))
    target_link.gap("gap: previous=1:4 last=1:2")
    assert target_link.refused("quota") == Refused(1, "quota")


def test_receipts_may_name_the_position_at_the_source() -> None:
    target_link = opened(carried(1, 0), carried(1, 1))
    assert target_link.receipt_at(Position(1, 0)) == (1, Position(1, 0))
    with pytest.raises(RemoteProtocolError, match=r"entry at 1:5 .* expected 1:1"):
        target_link.receipt_at(Position(1, 5))


def test_held_entries_are_settled_after_outstanding_ones() -> None:
    target_link = opened(carried(1, 1))
    target_link.held(carried(2, 1))
    target_link.held(carried(2, 2))
    assert list(target_link.settled()) == []
    assert target_link.outstanding == 3
    target_link.receipt(1)
    assert list(target_link.settled()) == [(2, Position(1, 1)), (2, Position(1, 2))]
    assert target_link.outstanding == 0


def test_the_receipt_of_a_marker_names_its_send_and_of_an_entry_perhaps_its_place() -> None:
    """Apache Pulsar's receipts for entries have their position at the source, and a marker has none."""
    place = Position(1, 0)
    marker = Carried(Attachment(1, "ewr", TOPIC), place, Link(place, place), b"")
    assert not carried(1, 0).is_marker
    assert marker.is_marker
    target_link = opened(carried(1, 0), marker)
    assert not target_link.expects_marker
    assert target_link.receipt_at(place) == (1, place)
    assert target_link.expects_marker
    assert target_link.receipt(2) == (1, place)
    assert not target_link.expects_marker
