"""The reader's state of a source, with a broker that grants or refuses its consumers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Budget
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.reading.source_cluster import SourceCluster
from magnetar.pipeline.spreading import ALL_BUCKETS
from magnetar.wire import commands
from magnetar.wire.links import CUSTODY_IN_RUNS, LinkEnd, link_bucket
from magnetar.wire.message_id import Link, LinkRun, OriginPosition, position_of
from tests.unit.pipeline.hand_broker import HandBroker, HandLoop, RestingBroker

if TYPE_CHECKING:
    import asyncio

    from magnetar.pipeline.rows import Carried

NAMESPACE = "public/default"
ORDERS, PAYMENTS = f"persistent://{NAMESPACE}/orders", f"persistent://{NAMESPACE}/payments"


class Reader:
    """A task with one source, whose broker has one topic."""

    def __init__(
        self,
        broker: HandBroker | None = None,
        *,
        rival: str = "",
        newer_lease: bool = False,
        carrying: bool = True,
        owner: HandBroker | None = None,
        buckets: frozenset[int] = ALL_BUCKETS,
    ) -> None:
        self.broker = broker or HandBroker("pulsar://ewr:6650")
        self.broker.namespaces[NAMESPACE] = [ORDERS]
        self.broker.rival, self.broker.newer_lease = rival, newer_lease
        self.hand = HandLoop(self.broker, *filter(None, [owner]))
        self.loop: asyncio.AbstractEventLoop = self.hand
        self.rng = random.Random(1)
        self.budget = Budget()
        self.target, self.lease, self.pipeline = "jfk", 7, "host:1:a"
        self.buckets = buckets
        self.target_state = ""
        self.custody = ""
        self.carrying, self.succeeded = carrying, False
        self.carried: list[Carried] = []
        self.forgotten: list[int] = []
        self.polled: list[str] = []
        """Sources whose admin ports are to be polled."""
        self._numbers = 0
        self.tail = SourceCluster(self, ClusterAddress("ewr", self.broker.url, ""))
        self.tail.start()
        self.tail.serve([NAMESPACE])
        self.hand.run()
        self.hand.pass_time(limits.TOPICS_POLL_SECONDS)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def carry(self, carried: Carried) -> None:
        self.carried.append(carried)

    def forget(self, number: int) -> None:
        self.forgotten.append(number)

    def poll_namespaces(self, source: str) -> None:
        self.polled.append(source)

    def metadata(self) -> list[dict[str, str]]:
        """Return the metadata of each SUBSCRIBE."""
        return [{each.key: each.value for each in asked.metadata} for asked in self.broker.subscribed]

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.hand.pass_time(1)


def test_a_task_names_its_lease_and_its_pipeline() -> None:
    reader = Reader()
    own = {"magnetar.lease": "7", "magnetar.copies": "true", "magnetar.runs": "true", "magnetar.pipeline": "host:1:a"}
    assert reader.metadata() == [own]
    assert (reader.tail.live_links, reader.tail.parked, reader.tail.rivals) == (1, {}, set())


def test_a_task_offers_to_carry_entries_in_custody_if_the_target_takes_them() -> None:
    reader = Reader(carrying=False)
    reader.custody, reader.carrying = CUSTODY_IN_RUNS, True
    reader.tail.attach()
    reader.hand.run()
    assert reader.metadata()[0]["magnetar.custody"] == "runs"


def test_a_gap_in_entries_in_custody_is_sought_in_positions_of_their_origin() -> None:
    reader = Reader()
    reader.tail.refused(1, "gap", LinkEnd("lga", Position(3, 4)))
    reader.pass_time(1)
    assert [(each.origin_cluster, position_of(each.message_id)) for each in reader.broker.sought] == [
        ("lga", Position(3, 4))
    ]


def test_a_link_that_another_pipeline_holds_is_tried_ever_more_seldom_until_it_is_free() -> None:
    reader = Reader(rival="host:2:b")
    assert (reader.tail.live_links, reader.tail.rivals) == (0, {"host:2:b"})
    assert reader.tail.displacements == 0
    reader.pass_time(300)
    assert 10 < len(reader.broker.subscribed) < 30
    assert all("magnetar.parked" not in metadata for metadata in reader.metadata())
    reader.broker.rival = ""
    reader.pass_time(int(limits.PARK_MAX_SECONDS) + 1)
    assert (reader.tail.live_links, reader.tail.rivals) == (1, set())


def test_a_link_that_the_next_lease_holds_is_left_to_it() -> None:
    reader = Reader(newer_lease=True)
    assert (reader.tail.live_links, reader.tail.displacements) == (0, 1)
    reader.pass_time(300)
    assert len(reader.broker.subscribed) == 1


def test_a_parked_link_tells_its_source_why() -> None:
    reader = Reader()
    reader.tail.refused(1, "entry 3:1 is too large", None)
    reader.pass_time(2)
    assert [metadata.get("magnetar.parked") for metadata in reader.metadata()] == [None, "entry 3:1 is too large"]
    assert reader.tail.parked == {}
    reader.tail.refused(2, "x" * 10_000, None)
    reader.pass_time(2)
    assert len(reader.metadata()[-1]["magnetar.parked"]) == limits.REASON_CHARACTERS


def test_a_source_that_has_closed_the_consumer_is_not_told_so() -> None:
    reader = Reader()
    reader.broker.say(commands.close_consumer(consumer_id=1, request_id=0))
    reader.hand.run()
    assert reader.tail.parked == {ORDERS: "the broker closed the consumer"}
    reader.pass_time(2)
    assert ["magnetar.parked" in metadata for metadata in reader.metadata()] == [False, False]
    reader.tail.refused(2, "entry 3:1 is too large", None)
    reader.pass_time(2)
    assert "magnetar.parked" in reader.metadata()[-1]


def test_a_parked_link_tells_its_source_what_the_target_had_confirmed() -> None:
    reader = Reader()
    reader.tail.confirmed(1, Position(3, 0))
    reader.tail.refused(1, "entry 3:1 is too large", None)
    reader.pass_time(2)
    assert [metadata.get("magnetar.parked.after") for metadata in reader.metadata()] == [None, "3:0"]


def test_a_task_is_told_of_each_stay_that_ends() -> None:
    reader = Reader()
    reader.tail.refused(1, "entry 3:1 is too large", None)
    reader.pass_time(2)
    reader.tail.detach()
    reader.tail.attach()
    reader.hand.run()
    reader.broker.drop()
    reader.hand.run()
    reader.pass_time(5)
    reader.broker.say(commands.close_consumer(consumer_id=4, request_id=0))
    reader.hand.run()
    assert reader.forgotten == [1, 2, 3, 4]


def test_a_marker_is_replaced_when_it_comes_and_an_entry_when_it_is_confirmed() -> None:
    reader = Reader()
    assert reader.broker.flows == [limits.WINDOW_ENTRIES_UNMEASURED]
    place = Position(3, 0)
    for link in (Link(place, place), Link(EARLIEST, EARLIEST)):
        reader.broker.say(commands.message_on_link(consumer_id=1, position=place, entry=b"entry", link=link))
    reader.hand.run()
    assert [carried.is_marker for carried in reader.carried] == [True, False]
    assert reader.broker.flows[1:] == [1]


def test_each_confirmation_of_an_entry_and_of_the_markers_in_its_place_is_acknowledged() -> None:
    """The source counts them, because it must not repeat a marker that the target has confirmed."""
    reader = Reader()
    place = Position(3, 0)
    for link in (Link(EARLIEST, EARLIEST), Link(place, place), Link(place, place)):
        reader.broker.say(commands.message_on_link(consumer_id=1, position=place, entry=b"entry", link=link))
    reader.hand.run()
    for _ in range(3):
        reader.tail.confirmed(1, place)
    reader.hand.run()
    assert reader.broker.acknowledged == [place] * 3


def test_a_run_is_carried_as_a_whole() -> None:
    reader, start = Reader(), Link(EARLIEST, EARLIEST)
    for sizes, first in (((1, 2), 0), ((3, 4, 5), 2)):
        run = LinkRun(Position(3, first), start, sizes, b"v", bytes(sum(sizes)))
        reader.broker.say(commands.message_run(consumer_id=1, run=run))
    reader.hand.run()
    assert [(each.last, each.sizes, each.schema_version) for each in reader.carried] == [
        (Position(3, 1), (1, 2), b"v"),
        (Position(3, 4), (3, 4, 5), b"v"),
    ]
    assert reader.budget.used == 15
    reader.tail.confirmed(1, Position(3, 0))
    assert reader.budget.used == 15
    reader.tail.confirmed(1, Position(3, 4))
    reader.hand.run()
    assert reader.budget.used == 0
    assert reader.broker.acknowledged[-1] == Position(3, 4)
    assert reader.broker.flows == [2, limits.WINDOW_ENTRIES_INITIAL - 2], "each entry uses a permit"


def test_a_run_in_custody_is_carried_with_its_origin() -> None:
    reader, origin = Reader(), OriginPosition("lga", Position(9, 4))
    run = LinkRun(Position(3, 0), Link(Position(9, 2), Position(9, 3)), (1, 2), b"v", bytes(3), origin)
    reader.broker.say(commands.message_run(consumer_id=1, run=run))
    reader.hand.run()
    assert [(each.last, each.origin, each.link) for each in reader.carried] == [(Position(3, 1), origin, run.link)]


def test_a_run_that_is_not_complete_parks_the_link() -> None:
    reader = Reader()
    run = LinkRun(Position(3, 0), Link(), (1, 2), b"", bytes(4))
    reader.broker.say(commands.message_run(consumer_id=1, run=run))
    reader.hand.run()
    assert reader.tail.parked == {ORDERS: "a run at 3:0 has 4 bytes, and states 3"}
    assert reader.carried == []


class RestingReader(Reader):
    """A task whose source supports links that rest, and whose target reports its losses."""

    def __init__(
        self,
        *,
        rival: str = "",
        newer_lease: bool = False,
        carrying: bool = True,
        source: RestingBroker | None = None,
        owner: RestingBroker | None = None,
    ) -> None:
        self.source = source or RestingBroker("pulsar://ewr:6650")
        super().__init__(self.source, rival=rival, newer_lease=newer_lease, carrying=carrying, owner=owner)

    def observe_target(self, state: str = "run:0") -> None:
        """Report the target as connected."""
        self.target_state = state
        self.tail.attach()
        self.hand.run()

    def carries(self) -> list[tuple[int, str, str, list[str]]]:
        """Return the lease, pipeline, state of the target, and its losses, of each CARRY_LINKS."""
        return [(each.lease, each.pipeline, each.target_state, list(each.lost)) for each in self.source.carried]

    def due(self, *topics: str, urgent: int = 0, superseded: bool = False) -> None:
        self.broker.say(commands.links_due(topics=topics, urgent=urgent, superseded=superseded))
        self.hand.run()

    def attached(self) -> list[str]:
        """Return the topic of each SUBSCRIBE."""
        return [asked.topic for asked in self.broker.subscribed]


def test_a_task_attaches_the_links_that_are_due() -> None:
    reader = RestingReader()
    assert reader.carries() == [(7, "host:1:a", "", [])]
    assert [asked.topic for asked in reader.broker.subscribed] == [ORDERS]
    assert reader.broker.asked_for == reader.polled == []
    reader.due(ORDERS, PAYMENTS)
    assert [asked.topic for asked in reader.broker.subscribed] == [ORDERS, PAYMENTS]


def test_a_link_that_rests_is_forgotten_until_it_is_due() -> None:
    reader = RestingReader()
    reader.broker.say(commands.close_consumer(consumer_id=1, request_id=0, rests=True))
    reader.pass_time(20)
    assert (len(reader.broker.subscribed), reader.tail.live_links, reader.tail.parked) == (1, 0, {})
    assert reader.forgotten == [1]
    reader.due(ORDERS)
    assert reader.tail.live_links == 1


def test_a_link_that_is_due_before_its_rest_is_known_gets_a_holder() -> None:
    owner, source = RestingBroker("pulsar://other:6650"), RestingBroker("pulsar://ewr:6650")
    source.owner_url = owner.url
    reader = RestingReader(source=source, owner=owner)
    reader.due(ORDERS)
    for held in (2, 2):
        owner.say(commands.close_consumer(consumer_id=len(owner.subscribed), request_id=0, rests=True))
        reader.hand.run()
        assert len(owner.subscribed) == held
    assert reader.tail.live_links == 0


def test_changes_of_the_target_are_reported_to_the_source() -> None:
    reader = RestingReader()
    reader.observe_target("run:0")
    reader.target_state = "run:1"
    reader.tail.target_lost([ORDERS])
    reader.target_state = ""
    reader.tail.detach()
    reader.hand.run()
    assert [each[2:] for each in reader.carries()] == [("", []), ("run:0", []), ("run:1", [ORDERS]), ("", [])]


def test_a_task_leaves_the_links_to_others_before_its_slot() -> None:
    reader = RestingReader(carrying=False)
    reader.tail.detach()
    reader.hand.run()
    assert (reader.carries(), reader.broker.subscribed) == ([], [])
    reader.carrying = True
    reader.observe_target()
    assert [each[2:] for each in reader.carries()] == [("run:0", [])]


def test_a_topic_that_is_gone_is_forgotten() -> None:
    for code in (ServerError.TopicNotFound, ServerError.SubscriptionNotFound):
        reader = RestingReader()
        reader.source.subscribe_error = code
        reader.broker.say(commands.close_consumer(consumer_id=1, request_id=0))
        reader.pass_time(20)
        assert (len(reader.broker.subscribed), reader.tail.parked) == (2, {})
        reader.source.subscribe_error = None
        reader.due(ORDERS)
        assert reader.tail.live_links == 1


def test_a_topic_that_is_made_again_right_after_a_refusal_gets_a_holder() -> None:
    reader = RestingReader()
    reader.source.subscribe_error = ServerError.TopicNotFound
    reader.source.after_error = commands.links_due(topics=[ORDERS])
    reader.broker.say(commands.close_consumer(consumer_id=1, request_id=0))
    reader.pass_time(5)
    assert (len(reader.broker.subscribed), reader.tail.live_links) == (3, 1)


def test_links_that_another_pipeline_carries_are_tried_again() -> None:
    reader = RestingReader(rival="host:2:b")
    assert reader.tail.rivals == {"host:2:b"}
    reader.pass_time(300)
    assert 10 < len(reader.source.carried) < 30
    reader.broker.rival = ""
    reader.pass_time(int(limits.PARK_MAX_SECONDS) + 1)
    assert (reader.tail.live_links, reader.tail.rivals) == (1, set())


def test_links_that_the_next_lease_carries_are_left_to_it() -> None:
    reader = RestingReader(newer_lease=True)
    assert reader.tail.due.is_superseded
    reader.observe_target()
    reader.pass_time(60)
    assert len(reader.source.carried) == 1
    other = RestingReader()
    other.due(superseded=True)
    assert other.tail.due.is_superseded


def test_a_source_that_begins_to_support_resting_links_is_not_asked_for_topics_any_more() -> None:
    broker = RestingBroker("pulsar://ewr:6650")
    broker.rests_links = False
    reader = Reader(broker)
    assert broker.asked_for
    broker.rests_links = True
    broker.drop()
    reader.pass_time(5)
    broker.asked_for.clear()
    reader.pass_time(5)
    assert broker.asked_for == []
    assert [asked.topic for asked in broker.subscribed] == [ORDERS, ORDERS]


def test_a_task_of_some_buckets_carries_their_topics_only() -> None:
    names = [f"persistent://{NAMESPACE}/t{number}" for number in range(20)]
    mine = frozenset(range(0, 64, 2))
    broker = HandBroker("pulsar://ewr:6650")
    reader = Reader(broker, buckets=mine)
    broker.namespaces[NAMESPACE] = names
    reader.pass_time(int(limits.TOPICS_POLL_SECONDS) + 1)
    asked = {each.topic for each in broker.subscribed} - {ORDERS}
    assert asked == {name for name in names if link_bucket(name) in mine}
    assert 0 < len(asked) < len(names)


@pytest.mark.parametrize("divides", [False, True])
def test_an_earlier_source_that_knows_no_buckets_is_asked_for_topics(*, divides: bool) -> None:
    broker = RestingBroker("pulsar://ewr:6650")
    broker.divides_links = divides
    reader = Reader(broker, buckets=frozenset({link_bucket(ORDERS)}))
    reader.pass_time(5)
    assert bool(broker.asked_for) is not divides
    assert [list(command.buckets) for command in broker.carried] == [[link_bucket(ORDERS)]] * divides


MANY = [f"persistent://{NAMESPACE}/t{number}" for number in range(limits.OPENINGS_MAX + 10)]
"""More topics than a task attaches at a time."""


def test_many_links_are_attached_in_turns() -> None:
    reader = RestingReader()
    reader.source.holds_consumers = True
    reader.due(*MANY)
    assert reader.attached()[1:] == MANY[: limits.OPENINGS_MAX]
    reader.source.release()
    reader.hand.run()
    assert len(reader.attached()) == 1 + limits.OPENINGS_MAX
    reader.hand.pass_time(limits.FIRST_ENTRY_SECONDS)
    assert reader.attached()[1:] == MANY


def test_links_that_are_not_attached_in_time_do_not_keep_others_waiting() -> None:
    reader = RestingReader()
    reader.source.holds_consumers = True
    reader.due(*MANY)
    reader.hand.pass_time(limits.OPENING_SECONDS)
    assert reader.attached()[1:] == MANY


def test_a_source_that_answers_slowly_gets_no_more_requests_meanwhile() -> None:
    reader = RestingReader()
    reader.source.holds_consumers = True
    reader.due(PAYMENTS)
    reader.hand.pass_time(2 * limits.OPENING_SECONDS)
    reader.source.release()
    reader.due(*MANY)
    reader.hand.pass_time(7 * limits.OPENING_SECONDS)
    assert reader.attached()[2:] == MANY[: limits.OPENINGS_MAX]
    reader.hand.pass_time(2 * limits.OPENING_SECONDS)
    assert reader.attached()[2:] == MANY


def test_links_with_entries_are_attached_before_others() -> None:
    reader = RestingReader()
    reader.source.holds_consumers = True
    reader.due(*MANY[:-2])
    reader.due(MANY[-1], ORDERS, urgent=1)
    reader.due(MANY[-3], urgent=1)
    reader.hand.pass_time(limits.OPENING_SECONDS)
    assert reader.attached()[1 + limits.OPENINGS_MAX :][:2] == [MANY[-1], MANY[-3]]
    assert sorted(reader.attached()[1:]) == sorted([*MANY[:-2], MANY[-1]])


def test_a_link_keeps_its_turn_until_its_first_entry_is_confirmed() -> None:
    reader = RestingReader()
    reader.due(*MANY)
    place = Position(3, 0)
    start = Link(EARLIEST, EARLIEST)
    for number in range(2, 2 + limits.OPENINGS_MAX):
        reader.broker.say(commands.message_on_link(consumer_id=number, position=place, entry=b"entry", link=start))
    reader.hand.pass_time(2 * limits.FIRST_ENTRY_SECONDS)
    assert reader.attached()[1:] == MANY[: limits.OPENINGS_MAX]
    for number in range(3):
        reader.tail.confirmed(2 + number, place)
    reader.hand.run()
    assert reader.attached()[1:] == MANY[: limits.OPENINGS_MAX + 3]


def test_a_link_that_was_reported_before_its_attachment_is_not_attached_again() -> None:
    reader = RestingReader()
    reader.source.holds_consumers = True
    reader.due(PAYMENTS)
    reader.due(PAYMENTS)
    reader.source.release()
    reader.hand.run()
    reader.broker.say(commands.close_consumer(consumer_id=2, request_id=0, rests=True))
    reader.pass_time(5)
    assert reader.attached() == [ORDERS, PAYMENTS]
