"""The reason for parking a link, as stored by its source."""

from __future__ import annotations

import pytest

from magnetar.base.errors import RequestError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.replication.outbound.parking import Parking, parked_after
from magnetar.wire.links import PARKED_AFTER_METADATA, PARKED_METADATA

TOO_LARGE = {PARKED_METADATA: "entry 3:1 is too large", PARKED_AFTER_METADATA: "3:0"}


@pytest.fixture
def parking() -> Parking:
    parking = Parking()
    assert parking.take_over(TOO_LARGE)
    return parking


def test_a_reason_is_new_once(parking: Parking) -> None:
    assert not parking.take_over(TOO_LARGE)
    assert not parking.take_over({}), "the next lease knows nothing of it"
    assert parking.reason == "entry 3:1 is too large"
    assert parking.take_over({PARKED_METADATA: "the quota is full"})
    assert parking.reason == "the quota is full"


@pytest.mark.parametrize("through", [None, EARLIEST, Position(2, 9), Position(3, 0)])
def test_an_entry_that_was_confirmed_before_and_is_sent_again_does_not_end_it(
    parking: Parking, through: Position | None
) -> None:
    assert not parking.confirmed(through, is_all=False)
    assert parking.reason == "entry 3:1 is too large"


@pytest.mark.parametrize(("through", "is_all"), [(Position(3, 1), False), (Position(4, 0), False), (None, True)])
def test_more_than_before_ends_it(parking: Parking, through: Position | None, is_all: bool) -> None:
    assert parking.confirmed(through, is_all=is_all)
    assert parking.reason is None
    assert not parking.confirmed(through, is_all=is_all), "it has ended"


def test_a_holder_of_an_older_version_goes_on_by_whatever_is_confirmed() -> None:
    parking = Parking()
    parking.take_over({PARKED_METADATA: "the quota is full"})
    assert parking.confirmed(Position(0, 0), is_all=False)


@pytest.mark.parametrize("text", ["", "3", "3:x", "-2:0", "9223372036854775808:0", "\u0663:0"])
def test_a_malformed_position_is_refused(parking: Parking, text: str) -> None:
    with pytest.raises(RequestError, match=PARKED_AFTER_METADATA):
        parked_after({PARKED_AFTER_METADATA: text})
    with pytest.raises(RequestError, match=PARKED_AFTER_METADATA):
        parking.take_over({PARKED_METADATA: "another", PARKED_AFTER_METADATA: text})
    assert parking.reason == "entry 3:1 is too large"
