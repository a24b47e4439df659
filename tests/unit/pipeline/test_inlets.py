from __future__ import annotations

import random

import pytest

from magnetar.base.position import Position
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Budget
from magnetar.pipeline.reading.inlets import Acknowledge, Close, Flow, Inlet, Retry, Seek, State, Subscribe
from magnetar.pipeline.rows import Attachment

TOPIC = "persistent://public/default/t"
FIRST = limits.WINDOW_ENTRIES_UNMEASURED


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)


@pytest.fixture
def budget() -> Budget:
    return Budget()


@pytest.fixture
def inlet(budget: Budget) -> Inlet:
    return Inlet("ewr", TOPIC, budget)


def attached(inlet: Inlet, number: int = 1) -> Inlet:
    assert inlet.start(number) == [Subscribe(Attachment(number, "ewr", TOPIC))]
    assert inlet.subscribed() == [Flow(number, FIRST)]
    return inlet


def test_a_link_subscribes_and_asks_for_entries(inlet: Inlet) -> None:
    assert not inlet.live
    assert attached(inlet).state is State.ATTACHED
    assert inlet.start(2) == [], "it is live already"


def test_receipts_are_acknowledged_at_the_source_once(inlet: Inlet) -> None:
    attached(inlet)
    inlet.arrived(Position(1, 0), 10, now=0)
    inlet.arrived(Position(1, 1), 10, now=0)
    inlet.confirmed(Position(1, 1), now=0)
    assert inlet.acknowledge() == [Acknowledge(1, Position(1, 1))]
    assert inlet.acknowledge() == []


def test_a_refused_link_is_parked_longer_each_time_until_something_is_confirmed(
    inlet: Inlet, rng: random.Random
) -> None:
    pauses = []
    for number in range(1, 4):
        attached(inlet, number)
        close, retry = inlet.refused("quota", rng)
        assert close == Close(number)
        assert isinstance(retry, Retry)
        pauses.append(retry.seconds)
        assert inlet.reason == "quota"
    assert all(later <= limits.PARK_MAX_SECONDS for later in pauses)
    assert pauses[2] >= limits.PARK_INITIAL_SECONDS * 4 / 2
    attached(inlet, 4)
    inlet.arrived(Position(1, 0), 10, now=0)
    inlet.confirmed(Position(1, 0), now=0)
    assert inlet.reason == ""
    *_, retry = inlet.refused("quota", rng)
    assert isinstance(retry, Retry)
    assert retry.seconds <= limits.PARK_INITIAL_SECONDS


def test_what_was_under_way_is_forgotten_when_a_stay_ends(inlet: Inlet, budget: Budget, rng: random.Random) -> None:
    attached(inlet)
    inlet.arrived(Position(1, 0), 1_000, now=0)
    assert budget.used == 1_000
    inlet.refused("quota", rng)
    assert budget.used == 0


def test_a_gap_sends_the_source_back_to_where_the_target_is(inlet: Inlet, rng: random.Random) -> None:
    attached(inlet)
    assert inlet.gap("gap", Position(3, 4), rng) == [Close(1), Retry(0.0)]
    inlet.start(2)
    assert inlet.subscribed() == [Seek(2, Position(3, 4))]
    assert inlet.sought() == [Flow(2, FIRST)]


def test_a_gap_that_going_back_does_not_close_parks_the_link(inlet: Inlet, rng: random.Random) -> None:
    attached(inlet)
    inlet.gap("gap", Position(3, 4), rng)
    inlet.start(2)
    inlet.subscribed()
    inlet.sought()
    close, retry = inlet.gap("gap again", Position(3, 4), rng)
    assert close == Close(2)
    assert isinstance(retry, Retry)
    assert retry.seconds > 0
    assert inlet.reason == "gap again"
    inlet.start(3)
    assert inlet.subscribed() == [Seek(3, Position(3, 4))], "it still has to go back"


def test_a_displaced_link_stays_away(inlet: Inlet) -> None:
    attached(inlet)
    inlet.displaced()
    assert not inlet.live
    assert inlet.start(2) == []


def test_a_link_that_is_detached_starts_again_without_a_pause(inlet: Inlet) -> None:
    attached(inlet)
    assert inlet.detach() == [Close(1)]
    assert inlet.detach() == []
    attached(inlet, 2)


def test_a_link_whose_source_is_gone_tries_again_later(inlet: Inlet, rng: random.Random) -> None:
    attached(inlet)
    (retry,) = inlet.closed("connection lost", rng)
    assert isinstance(retry, Retry)
    assert inlet.closed("connection lost", rng) == []


def test_a_link_stalls_when_entries_stay_unconfirmed(inlet: Inlet) -> None:
    attached(inlet)
    assert not inlet.stalled(1e9), "nothing is under way"
    inlet.arrived(Position(1, 0), 10, now=100)
    inlet.arrived(Position(1, 1), 10, now=100 + limits.STALL_SECONDS / 2)
    assert not inlet.stalled(100 + limits.STALL_SECONDS - 0.1)
    inlet.confirmed(Position(1, 0), now=100 + limits.STALL_SECONDS - 0.1)
    assert not inlet.stalled(100 + limits.STALL_SECONDS)
    assert inlet.stalled(100 + 2 * limits.STALL_SECONDS)


def test_a_link_is_caught_up_while_nothing_is_under_way(inlet: Inlet) -> None:
    attached(inlet)
    assert inlet.is_caught_up
    inlet.arrived(Position(1, 0), 10, now=100)
    inlet.arrived(Position(1, 1), 10, now=100)
    inlet.confirmed(Position(1, 0), now=101)
    assert not inlet.is_caught_up
    inlet.confirmed(Position(1, 1), now=101)
    assert inlet.is_caught_up


def test_what_is_not_carried_is_acknowledged_behind_what_is(inlet: Inlet) -> None:
    attached(inlet)
    inlet.passed_over(Position(1, 0), 1, 10)
    assert inlet.acknowledge() == [Acknowledge(1, Position(1, 0))]
    inlet.arrived(Position(1, 1), 10, now=0)
    inlet.passed_over(Position(1, 2), 1, 10)
    assert inlet.acknowledge() == []
    inlet.confirmed(Position(1, 1), now=0)
    assert inlet.acknowledge() == [Acknowledge(1, Position(1, 2))]


def test_what_was_not_carried_in_an_earlier_stay_counts_no_more(inlet: Inlet) -> None:
    attached(inlet)
    inlet.arrived(Position(1, 1), 10, now=0)
    inlet.passed_over(Position(1, 2), 1, 10)
    inlet.detach()
    attached(inlet, 2)
    inlet.arrived(Position(1, 1), 10, now=0)
    inlet.confirmed(Position(1, 1), now=0)
    assert inlet.acknowledge() == [Acknowledge(2, Position(1, 1))]


def test_what_was_confirmed_before_does_not_end_the_parking(inlet: Inlet, rng: random.Random) -> None:
    """A probe is confirmed with each stay, and what parked the link may be right behind it."""
    attached(inlet)
    inlet.arrived(Position(1, 0), 10, now=0)
    inlet.confirmed(Position(1, 0), now=0)
    pauses = []
    for number in range(2, 9):
        *_, retry = inlet.refused("too large", rng)
        assert isinstance(retry, Retry)
        pauses.append(retry.seconds)
        attached(inlet, number)
        inlet.arrived(Position(1, 0), 10, now=0)
        inlet.confirmed(Position(1, 0), now=0)
        assert inlet.reason == "too large"
    assert pauses[-1] > 16 * pauses[0]
    inlet.arrived(Position(1, 1), 10, now=0)
    inlet.confirmed(Position(1, 1), now=0)
    assert inlet.reason == ""


def test_a_refused_link_first_acknowledges_what_the_target_has_confirmed(inlet: Inlet, rng: random.Random) -> None:
    """The source would send it again in the next stay, and take its confirmation for the end of the parking."""
    attached(inlet)
    inlet.arrived(Position(1, 0), 10, now=0)
    inlet.arrived(Position(1, 1), 10, now=0)
    inlet.confirmed(Position(1, 0), now=0)
    acknowledge, close, retry = inlet.refused("too large", rng)
    assert (acknowledge, close) == (Acknowledge(1, Position(1, 0)), Close(1))
    assert isinstance(retry, Retry)
    assert inlet.refused("too large", rng) == [], "it has left"


def test_a_gap_acknowledges_nothing_that_the_target_has_lost(inlet: Inlet, rng: random.Random) -> None:
    attached(inlet)
    inlet.arrived(Position(1, 5), 10, now=0)
    inlet.confirmed(Position(1, 5), now=0)
    assert inlet.gap("gap", Position(1, 1), rng) == [Close(1), Retry(0.0)]


def test_what_is_sent_again_after_a_gap_ends_the_parking(inlet: Inlet, rng: random.Random) -> None:
    attached(inlet)
    inlet.arrived(Position(1, 5), 10, now=0)
    inlet.confirmed(Position(1, 5), now=0)
    inlet.gap("gap", Position(1, 1), rng)
    inlet.start(2)
    assert inlet.subscribed() == [Seek(2, Position(1, 1))]
    inlet.sought()
    inlet.arrived(Position(1, 2), 10, now=0)
    inlet.confirmed(Position(1, 2), now=0)
    inlet.refused("busy", rng)
    inlet.start(3)
    assert inlet.subscribed() == [Flow(3, FIRST)], "it goes back once"
