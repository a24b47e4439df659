from __future__ import annotations

import pytest

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline.connections.reports import Refused
from magnetar.pipeline.rows import Attachment, Carried
from magnetar.pipeline.writing.outlets import Action, Outlet, State
from magnetar.wire.message_id import Link

TOPIC = "persistent://public/default/t"


def carried(number: int, entry: int) -> Carried:
    return Carried(Attachment(number, "ewr", TOPIC), Position(1, entry), Link(), b"")


def opened(*entries: Carried) -> Outlet:
    outlet = Outlet("ewr", TOPIC)
    for entry in entries:
        outlet.offer(entry)
    held, _ = outlet.opened(None)
    for entry in held:
        outlet.sent(entry)
    return outlet


def test_the_first_entry_opens_the_producer_and_waits_with_the_next_ones() -> None:
    outlet = Outlet("ewr", TOPIC)
    assert outlet.offer(carried(1, 0)) is Action.OPEN
    assert outlet.offer(carried(1, 1)) is Action.HOLD
    held, refused = outlet.opened(None)
    assert (held, refused) == ([carried(1, 0), carried(1, 1)], None)
    assert outlet.offer(carried(1, 2)) is Action.SEND


def test_receipts_name_the_entries_in_the_order_of_their_sends() -> None:
    outlet = opened(carried(1, 0), carried(1, 1))
    assert outlet.outstanding == 2
    assert outlet.receipt(1) == (1, Position(1, 0))
    assert outlet.receipt(2) == (1, Position(1, 1))
    assert outlet.outstanding == 0


@pytest.mark.parametrize("sequence_id", [0, 2])
def test_a_receipt_out_of_order_is_the_targets_fault(sequence_id: int) -> None:
    with pytest.raises(RemoteProtocolError, match="expected 1"):
        opened(carried(1, 0), carried(1, 1)).receipt(sequence_id)


def test_a_gap_is_reported_once_the_new_producer_tells_how_far_the_target_is() -> None:
    outlet = opened(carried(1, 5), carried(1, 6))
    assert outlet.gap("gap: previous=1:4 last=1:2")
    assert not outlet.gap("gap: previous=1:5 last=1:2"), "it is being looked into"
    assert outlet.offer(carried(1, 7)) is Action.DROP
    held, refused = outlet.opened(Position(1, 2))
    assert held == []
    assert refused == Refused(1, "gap: previous=1:4 last=1:2", Position(1, 2))
    assert outlet.offer(carried(1, 8)) is Action.DROP
    assert outlet.offer(carried(2, 3)) is Action.SEND


def test_a_target_that_holds_nothing_is_sent_everything() -> None:
    outlet = opened(carried(1, 5))
    outlet.gap("gap: previous=1:4 last=-1:-1")
    _, refused = outlet.opened(None)
    assert refused == Refused(1, "gap: previous=1:4 last=-1:-1", EARLIEST)


def test_after_a_refusal_only_a_new_attachment_is_taken() -> None:
    outlet = opened(carried(1, 0))
    assert outlet.refused("quota") == Refused(1, "quota")
    assert outlet.state is State.IDLE
    assert outlet.offer(carried(1, 1)) is Action.DROP
    assert outlet.offer(carried(2, 0)) is Action.OPEN


def test_a_refused_producer_refuses_what_waited_for_it() -> None:
    outlet = Outlet("ewr", TOPIC)
    outlet.offer(carried(3, 0))
    assert outlet.refused("busy") == Refused(3, "busy")
    assert outlet.outstanding == 0


def test_an_idle_producer_that_goes_away_has_the_reader_attach_again() -> None:
    outlet = opened(carried(1, 0))
    outlet.receipt(1)
    assert outlet.refused("closed") == Refused(1, "closed")
    assert outlet.refused("closed again") is None
    assert outlet.offer(carried(1, 1)) is Action.DROP
    assert outlet.offer(carried(2, 1)) is Action.OPEN


def test_a_gap_whose_new_producer_is_refused_ends_the_attachment() -> None:
    outlet = opened(carried(1, 5))
    outlet.gap("gap: previous=1:4 last=1:2")
    assert outlet.refused("quota") == Refused(1, "quota")


def test_receipts_may_name_the_position_at_the_source() -> None:
    outlet = opened(carried(1, 0), carried(1, 1))
    assert outlet.receipt_at(Position(1, 0)) == (1, Position(1, 0))
    with pytest.raises(RemoteProtocolError, match=r"entry at 1:5 .* expected 1:1"):
        outlet.receipt_at(Position(1, 5))


def test_what_the_target_held_is_settled_behind_what_is_outstanding() -> None:
    outlet = opened(carried(1, 1))
    outlet.held(carried(2, 1))
    outlet.held(carried(2, 2))
    assert list(outlet.settled()) == []
    assert outlet.outstanding == 3
    outlet.receipt(1)
    assert list(outlet.settled()) == [(2, Position(1, 1)), (2, Position(1, 2))]
    assert outlet.outstanding == 0


def test_the_receipt_of_a_marker_names_its_send_and_of_an_entry_perhaps_its_place() -> None:
    """Apache Pulsar's receipts for entries name their position at the source, and a marker has none of its own."""
    place = Position(1, 0)
    marker = Carried(Attachment(1, "ewr", TOPIC), place, Link(place, place), b"")
    assert not carried(1, 0).is_marker
    assert marker.is_marker
    outlet = opened(carried(1, 0), marker)
    assert not outlet.expects_marker
    assert outlet.receipt_at(place) == (1, place)
    assert outlet.expects_marker
    assert outlet.receipt(2) == (1, place)
    assert not outlet.expects_marker
