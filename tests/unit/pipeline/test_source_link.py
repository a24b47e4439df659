from __future__ import annotations

import random

import pytest

from magnetar.base.position import Position
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Budget
from magnetar.pipeline.reading.source_link import Acknowledge, Close, Flow, Retry, Seek, SourceLink, State, Subscribe
from magnetar.pipeline.rows import Attachment
from magnetar.wire.links import LinkEnd

TOPIC = "persistent://public/default/t"
FIRST = limits.WINDOW_ENTRIES_UNMEASURED


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)


@pytest.fixture
def budget() -> Budget:
    return Budget()


@pytest.fixture
def source_link(budget: Budget) -> SourceLink:
    return SourceLink("ewr", TOPIC, budget)


def attached(source_link: SourceLink, number: int = 1) -> SourceLink:
    assert source_link.start(number) == [Subscribe(Attachment(number, "ewr", TOPIC))]
    assert source_link.subscribed() == [Flow(number, FIRST)]
    return source_link


def test_a_link_subscribes_and_asks_for_entries(source_link: SourceLink) -> None:
    assert not source_link.live
    assert attached(source_link).state is State.ATTACHED
    assert source_link.start(2) == [], "it is live already"


def test_receipts_are_acknowledged_at_the_source_once(source_link: SourceLink) -> None:
    attached(source_link)
    source_link.arrived(Position(1, 0), 10, now=0)
    source_link.arrived(Position(1, 1), 10, now=0)
    source_link.confirmed(Position(1, 1), now=0)
    assert source_link.acknowledge() == [Acknowledge(1, Position(1, 1))]
    assert source_link.acknowledge() == []


def test_a_refused_link_is_parked_longer_each_time_until_something_is_confirmed(
    source_link: SourceLink, rng: random.Random
) -> None:
    pauses = []
    for number in range(1, 4):
        attached(source_link, number)
        close, retry = source_link.refused("quota", rng)
        assert close == Close(number)
        assert isinstance(retry, Retry)
        pauses.append(retry.seconds)
        assert source_link.reason == "quota"
    assert all(later <= limits.PARK_MAX_SECONDS for later in pauses)
    assert pauses[2] >= limits.PARK_INITIAL_SECONDS * 4 / 2
    attached(source_link, 4)
    source_link.arrived(Position(1, 0), 10, now=0)
    source_link.confirmed(Position(1, 0), now=0)
    assert source_link.reason == ""
    *_, retry = source_link.refused("quota", rng)
    assert isinstance(retry, Retry)
    assert retry.seconds <= limits.PARK_INITIAL_SECONDS


def test_entries_in_flight_are_dropped_at_the_end_of_an_attachment(
    source_link: SourceLink, budget: Budget, rng: random.Random
) -> None:
    attached(source_link)
    source_link.arrived(Position(1, 0), 1_000, now=0)
    assert budget.used == 1_000
    source_link.refused("quota", rng)
    assert budget.used == 0


def test_a_gap_sends_the_source_back_to_where_the_target_is(source_link: SourceLink, rng: random.Random) -> None:
    attached(source_link)
    assert source_link.gap("gap", LinkEnd("", Position(3, 4)), rng) == [Close(1), Retry(0.0)]
    source_link.start(2)
    assert source_link.subscribed() == Seek(2, LinkEnd("", Position(3, 4)))
    assert source_link.sought() == [Flow(2, FIRST)]


def test_a_gap_that_going_back_does_not_close_parks_the_link(source_link: SourceLink, rng: random.Random) -> None:
    attached(source_link)
    source_link.gap("gap", LinkEnd("", Position(3, 4)), rng)
    source_link.start(2)
    source_link.subscribed()
    source_link.sought()
    close, retry = source_link.gap("gap again", LinkEnd("", Position(3, 4)), rng)
    assert close == Close(2)
    assert isinstance(retry, Retry)
    assert retry.seconds > 0
    assert source_link.reason == "gap again"
    source_link.start(3)
    assert source_link.subscribed() == Seek(3, LinkEnd("", Position(3, 4))), "it still has to go back"


def test_positions_of_a_source_that_lost_its_data_are_forgotten(source_link: SourceLink, rng: random.Random) -> None:
    source_link.start(1)
    source_link.found("disk@1")
    source_link.subscribed()
    source_link.arrived(Position(9, 5), 10, now=0)
    source_link.confirmed(Position(9, 5), now=0)
    source_link.gap("gap", LinkEnd("", Position(9, 2)), rng)
    source_link.start(2)
    source_link.found("disk@1")
    assert source_link.subscribed() == Seek(2, LinkEnd("", Position(9, 2))), "the source has its data"
    source_link.refused("quota", rng)
    source_link.start(3)
    source_link.found("other@1")
    assert source_link.subscribed() == [Flow(3, FIRST)]
    source_link.arrived(Position(1, 0), 10, now=0)
    source_link.refused("quota again", rng)
    source_link.start(4)
    source_link.found("other@1")
    source_link.subscribed()
    source_link.arrived(Position(1, 0), 10, now=0)
    source_link.confirmed(Position(1, 0), now=0)
    assert (source_link.reason, source_link.furthest) == ("", Position(1, 0))


def test_a_displaced_link_stays_away(source_link: SourceLink) -> None:
    attached(source_link)
    source_link.displaced()
    assert not source_link.live
    assert source_link.start(2) == []


def test_a_link_that_is_detached_starts_again_without_a_pause(source_link: SourceLink) -> None:
    attached(source_link)
    assert source_link.detach() == [Close(1)]
    assert source_link.detach() == []
    attached(source_link, 2)


def test_a_link_whose_source_is_gone_tries_again_later(source_link: SourceLink, rng: random.Random) -> None:
    attached(source_link)
    (retry,) = source_link.closed("connection lost", rng)
    assert isinstance(retry, Retry)
    assert source_link.closed("connection lost", rng) == []


def test_a_link_stalls_when_entries_stay_unconfirmed(source_link: SourceLink) -> None:
    attached(source_link)
    assert not source_link.stalled(1e9), "nothing is under way"
    source_link.arrived(Position(1, 0), 10, now=100)
    source_link.arrived(Position(1, 1), 10, now=100 + limits.STALL_SECONDS / 2)
    assert not source_link.stalled(100 + limits.STALL_SECONDS - 0.1)
    source_link.confirmed(Position(1, 0), now=100 + limits.STALL_SECONDS - 0.1)
    assert not source_link.stalled(100 + limits.STALL_SECONDS)
    assert source_link.stalled(100 + 2 * limits.STALL_SECONDS)


def test_a_link_is_caught_up_while_nothing_is_under_way(source_link: SourceLink) -> None:
    attached(source_link)
    assert source_link.is_caught_up
    source_link.arrived(Position(1, 0), 10, now=100)
    source_link.arrived(Position(1, 1), 10, now=100)
    source_link.confirmed(Position(1, 0), now=101)
    assert not source_link.is_caught_up
    source_link.confirmed(Position(1, 1), now=101)
    assert source_link.is_caught_up


def test_skipped_entries_are_acknowledged_after_carried_ones(source_link: SourceLink) -> None:
    attached(source_link)
    source_link.passed_over(Position(1, 0), 1, 10)
    assert source_link.acknowledge() == [Acknowledge(1, Position(1, 0))]
    source_link.arrived(Position(1, 1), 10, now=0)
    source_link.passed_over(Position(1, 2), 1, 10)
    assert source_link.acknowledge() == []
    source_link.confirmed(Position(1, 1), now=0)
    assert source_link.acknowledge() == [Acknowledge(1, Position(1, 2))]


def test_skipped_entries_of_an_earlier_attachment_do_not_count(source_link: SourceLink) -> None:
    attached(source_link)
    source_link.arrived(Position(1, 1), 10, now=0)
    source_link.passed_over(Position(1, 2), 1, 10)
    source_link.detach()
    attached(source_link, 2)
    source_link.arrived(Position(1, 1), 10, now=0)
    source_link.confirmed(Position(1, 1), now=0)
    assert source_link.acknowledge() == [Acknowledge(2, Position(1, 1))]


def test_repeated_confirmations_do_not_end_the_parking(source_link: SourceLink, rng: random.Random) -> None:
    """Each attachment confirms a probe, and the cause of the parking may follow it."""
    attached(source_link)
    source_link.arrived(Position(1, 0), 10, now=0)
    source_link.confirmed(Position(1, 0), now=0)
    pauses = []
    for number in range(2, 9):
        *_, retry = source_link.refused("too large", rng)
        assert isinstance(retry, Retry)
        pauses.append(retry.seconds)
        attached(source_link, number)
        source_link.arrived(Position(1, 0), 10, now=0)
        source_link.confirmed(Position(1, 0), now=0)
        assert source_link.reason == "too large"
    assert pauses[-1] > 16 * pauses[0]
    source_link.arrived(Position(1, 1), 10, now=0)
    source_link.confirmed(Position(1, 1), now=0)
    assert source_link.reason == ""


def test_a_refused_link_first_acknowledges_what_the_target_has_confirmed(
    source_link: SourceLink, rng: random.Random
) -> None:
    """Otherwise the source would send it again in the next attachment, and its confirmation would end the parking."""
    attached(source_link)
    source_link.arrived(Position(1, 0), 10, now=0)
    source_link.arrived(Position(1, 1), 10, now=0)
    source_link.confirmed(Position(1, 0), now=0)
    acknowledge, close, retry = source_link.refused("too large", rng)
    assert (acknowledge, close) == (Acknowledge(1, Position(1, 0)), Close(1))
    assert isinstance(retry, Retry)
    assert source_link.refused("too large", rng) == [], "it has left"


def test_a_gap_acknowledges_nothing_that_the_target_has_lost(source_link: SourceLink, rng: random.Random) -> None:
    attached(source_link)
    source_link.arrived(Position(1, 5), 10, now=0)
    source_link.confirmed(Position(1, 5), now=0)
    assert source_link.gap("gap", LinkEnd("", Position(1, 1)), rng) == [Close(1), Retry(0.0)]


def test_resent_entries_after_a_gap_end_the_parking(source_link: SourceLink, rng: random.Random) -> None:
    attached(source_link)
    source_link.arrived(Position(1, 5), 10, now=0)
    source_link.confirmed(Position(1, 5), now=0)
    source_link.gap("gap", LinkEnd("", Position(1, 1)), rng)
    source_link.start(2)
    assert source_link.subscribed() == Seek(2, LinkEnd("", Position(1, 1)))
    source_link.sought()
    source_link.arrived(Position(1, 2), 10, now=0)
    source_link.confirmed(Position(1, 2), now=0)
    source_link.refused("busy", rng)
    source_link.start(3)
    assert source_link.subscribed() == [Flow(3, FIRST)], "it goes back once"


def test_a_link_goes_back_once_even_if_nothing_is_confirmed_afterwards(
    source_link: SourceLink, rng: random.Random
) -> None:
    """The target may lose the position later. Another seek there would replace the probe that detects the loss."""
    attached(source_link)
    source_link.gap("gap", LinkEnd("", Position(3, 4)), rng)
    source_link.start(2)
    assert source_link.closed("connection lost", rng)
    source_link.start(3)
    assert source_link.subscribed() == Seek(3, LinkEnd("", Position(3, 4))), "the source has not answered the first one"
    source_link.sought()
    source_link.detach()
    attached(source_link, 4)
    *_, retry = source_link.gap("gap again", LinkEnd("", Position(3, 4)), rng)
    assert isinstance(retry, Retry)
    assert retry.seconds > 0
