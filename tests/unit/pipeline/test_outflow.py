from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.pipeline import limits
from magnetar.pipeline.reading.outflow import Outflow, Pace
from magnetar.pipeline.rows import Attachment, Carried
from magnetar.wire.message_id import Link

SMALL = 100
SMALL_COST = SMALL + limits.OUTFLOW_ENTRY_BYTES
LARGE = 5 * 1024 * 1024
FLOODED, QUIET = 1, 2


def carried(number: int, entry: int, size: int = SMALL) -> Carried:
    attachment = Attachment(number, "ewr", f"persistent://public/default/t{number}")
    return Carried(attachment, Position(1, entry), Link(), bytes(size))


def put(outflow: Outflow, number: int, count: int, size: int = SMALL, first: int = 0) -> None:
    for entry in range(first, first + count):
        outflow.put(carried(number, entry, size))


def taken(outflow: Outflow, now: float = 0.0) -> list[tuple[int, int]]:
    return [(each.attachment.number, each.position.entry_id) for each in outflow.take(now)]


def bytes_of(entries: list[tuple[int, int]]) -> int:
    return len(entries) * SMALL_COST


def test_a_topic_alone_hands_over_as_much_as_the_limit_and_the_rest_as_it_is_confirmed() -> None:
    outflow = Outflow()
    put(outflow, FLOODED, 10_000)
    first = taken(outflow)
    assert limits.OUTFLOW_BYTES_MIN <= bytes_of(first) < limits.OUTFLOW_BYTES_MIN + SMALL_COST
    assert first == [(FLOODED, entry) for entry in range(len(first))]
    assert taken(outflow) == []
    outflow.confirmed(FLOODED, Position(1, 9), now=0.001)
    assert taken(outflow) == [(FLOODED, entry) for entry in range(len(first), len(first) + 10)]


def test_an_entry_of_a_quiet_topic_overtakes_all_that_wait_of_a_flooded_one() -> None:
    outflow = Outflow()
    put(outflow, FLOODED, 10_000)
    taken(outflow)
    put(outflow, QUIET, 1)
    assert taken(outflow) == [(QUIET, 0)]


def test_topics_alternate_within_one_burst() -> None:
    outflow = Outflow()
    put(outflow, FLOODED, 10_000)
    put(outflow, QUIET, 1)
    order = taken(outflow)
    before = order.index((QUIET, 0))
    assert bytes_of(order[:before]) < limits.OUTFLOW_TURN_BYTES + SMALL_COST


def under_way_of(topics: int, *, with_quiet: bool) -> int:
    """Return the number of entries in flight after ``topics`` with a backlog have sent 20,000 a second for 4 s."""
    outflow = Outflow()
    for number in range(10, 10 + topics):
        put(outflow, number, 100_000 // topics)
    under_way: deque[tuple[int, int]] = deque()
    for round_ in range(400):
        now = round_ / 100
        if with_quiet and not round_ % 10:
            put(outflow, QUIET, 10, first=10 * round_)
        for _ in range(min(200, len(under_way))):
            number, entry = under_way.popleft()
            outflow.confirmed(number, Position(1, entry), now)
        under_way += taken(outflow, now)
    return len(under_way)


def test_a_backlog_of_which_all_is_under_way_for_a_moment_shares_with_nobody() -> None:
    outflow, now, entry = Outflow(), 0.0, 0
    for _ in range(300):
        for count in (1_000, 1):
            put(outflow, FLOODED, count, first=entry)
            entry += count
            while handed_over := taken(outflow, now):
                now += 0.001
                outflow.confirmed(FLOODED, Position(1, handed_over[-1][1]), now)
    put(outflow, FLOODED, 100_000, first=entry)
    assert bytes_of(taken(outflow, now)) > 4 * limits.OUTFLOW_BYTES_MIN


@pytest.mark.parametrize("topics", [1, 4, 100])
def test_more_is_under_way_while_all_topics_have_a_backlog(topics: int) -> None:
    assert under_way_of(topics, with_quiet=False) > 2 * under_way_of(topics, with_quiet=True)


def test_topics_in_flood_share_the_limit() -> None:
    outflow = Outflow()
    for number in range(4):
        put(outflow, number, 1_000)
    counts = Counter(number for number, _ in taken(outflow))
    assert set(counts.values()) == {-(-limits.OUTFLOW_BYTES_MIN // 4 // SMALL_COST)}


def test_large_entries_of_several_topics_go_one_after_the_other_and_small_ones_pass() -> None:
    outflow = Outflow()
    for number in range(4):
        put(outflow, number, 2, LARGE)
    assert taken(outflow) == [(0, 0)]
    put(outflow, 7, 10)
    assert taken(outflow) == [(7, entry) for entry in range(10)]
    order = []
    for number in (0, 1, 2, 3):
        outflow.confirmed(number, Position(1, 0), now=0.0)
        order += taken(outflow)
    assert order == [(1, 0), (2, 0), (3, 0), (0, 1)]


def test_a_topic_that_is_never_confirmed_holds_up_no_other() -> None:
    outflow = Outflow()
    put(outflow, FLOODED, 10_000)
    taken(outflow)
    for entry in range(1_000):
        put(outflow, QUIET, 1, first=entry)
        assert taken(outflow) == [(QUIET, entry)]
        outflow.confirmed(QUIET, Position(1, entry), now=0.0)


def test_queued_entries_of_an_ended_attachment_are_dropped_and_make_room() -> None:
    outflow = Outflow()
    put(outflow, FLOODED, 2, LARGE)
    put(outflow, QUIET, 1, LARGE)
    assert taken(outflow) == [(FLOODED, 0)]
    outflow.forget(FLOODED)
    assert taken(outflow) == [(QUIET, 0)]
    outflow.forget(FLOODED)
    outflow.confirmed(FLOODED, Position(1, 0), now=0.0)
    outflow.confirmed(QUIET, Position(1, 0), now=0.0)
    assert taken(outflow) == []


def test_a_lane_that_was_ready_when_it_was_forgotten_hands_over_nothing() -> None:
    outflow = Outflow()
    put(outflow, FLOODED, 10)
    outflow.forget(FLOODED)
    put(outflow, QUIET, 1)
    assert taken(outflow) == [(QUIET, 0)]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([10, 70_000, 300_000])), max_size=80), st.data())
def test_all_entries_are_handed_over_once_in_the_order_of_their_topic(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    outflow = Outflow()
    waiting: dict[int, list[int]] = {}
    handed_over: dict[int, list[int]] = {}
    under_way: dict[int, int] = {}

    def step(now: float) -> None:
        for number, entry in taken(outflow, now):
            handed_over.setdefault(number, []).append(entry)
            under_way[number] = entry
        for number in data.draw(st.lists(st.sampled_from(sorted(under_way)), unique=True)) if under_way else []:
            outflow.confirmed(number, Position(1, under_way.pop(number)), now + 0.01)

    for at, (number, size) in enumerate(entries):
        put(outflow, number, 1, size, first=at)
        waiting.setdefault(number, []).append(at)
        if data.draw(st.booleans()):
            step(at / 10)
    for round_ in range(2 * len(entries) + 1):
        for number, entry in taken(outflow, 100.0 + round_):
            handed_over.setdefault(number, []).append(entry)
            under_way[number] = entry
        for number in sorted(under_way):
            outflow.confirmed(number, Position(1, under_way.pop(number)), 100.5 + round_)
    assert handed_over == waiting


class Way:
    """A path that confirms ``rate`` bytes per second in order, with a delay of ``delay_s``."""

    def __init__(self, rate: float, delay_s: float) -> None:
        self.pace = Pace()
        self.rate = rate
        self.delay_s = delay_s
        self.now = 0.0
        self.in_flight: list[tuple[float, float]] = []
        self.free_at = 0.0
        self.in_flight_bytes = 0

    def run(self, steps: int, *, is_backlog: bool = True) -> None:
        """Pass on entries of 10 kB within the limit, or one at a time."""
        for _ in range(steps):
            while self.in_flight_bytes < (self.pace.limit if is_backlog else 1):
                self.free_at = max(self.free_at, self.now) + 10_000 / self.rate
                self.in_flight.append((self.now, self.free_at + self.delay_s))
                self.in_flight_bytes += 10_000
            if is_backlog:
                self.pace.limited()
            at, self.now = self.in_flight.pop(0)
            self.in_flight_bytes -= 10_000
            self.pace.confirmed(10_000, at, self.now)


def test_the_limit_becomes_what_the_target_confirms_in_the_time_that_an_entry_may_wait() -> None:
    for rate in (20e6, 100e6):
        way = Way(rate, delay_s=0.005)
        way.run(20_000)
        assert 0.5 < way.pace.limit / (rate * (0.005 + limits.BACKLOG_QUEUE_SECONDS)) < 2
        way.pace.limited()
        way.pace.shared(way.now)
        way.run(2_000)
        assert 0.5 < way.pace.limit / (rate * (0.005 + limits.QUEUE_SECONDS)) < 2


def test_the_limit_grows_again_once_all_that_send_have_a_backlog() -> None:
    rate = 20e6
    way = Way(rate, delay_s=0.005)
    way.run(20_000)
    grown = way.pace.limit
    way.pace.limited()
    way.pace.shared(way.now)
    shrunk = way.pace.limit
    assert shrunk < grown / 2, "at once: the next entry of this topic is not to wait as long as this one"
    until = way.now + limits.SHARED_SECONDS
    while way.now < until:
        assert way.pace.limit < grown / 2
        way.run(1)
    way.run(5_000)
    assert way.pace.limit > grown / 2


def test_a_single_topic_does_not_share_the_limit() -> None:
    way = Way(20e6, delay_s=0.005)
    way.run(100, is_backlog=False)
    way.pace.shared(way.now)
    way.run(20_000)
    assert way.pace.limit > 20e6 * 2 * limits.QUEUE_SECONDS


def test_a_distant_target_gets_what_its_distance_needs_besides() -> None:
    way = Way(20e6, delay_s=0.2)
    way.run(20_000)
    assert way.pace.limit > 20e6 * 0.2, "less would leave the way empty at times"


def test_the_limit_shrinks_when_the_target_becomes_slow_but_not_below_the_least() -> None:
    way = Way(100e6, delay_s=0.005)
    way.run(20_000)
    way.rate = 1e6
    way.run(10_000)
    assert way.pace.limit == limits.OUTFLOW_BYTES_MIN


def test_a_trickle_leaves_the_limit_as_it_is() -> None:
    way = Way(100e6, delay_s=0.005)
    way.run(1_000, is_backlog=False)
    assert way.pace.limit == limits.OUTFLOW_BYTES_MIN
