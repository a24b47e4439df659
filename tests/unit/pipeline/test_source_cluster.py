"""The reader's state of a source, with a broker that grants or refuses its consumers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Budget
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.reading.source_cluster import SourceCluster
from magnetar.wire import commands
from magnetar.wire.message_id import Link
from tests.unit.pipeline.hand_broker import HandBroker, HandLoop

if TYPE_CHECKING:
    import asyncio

    from magnetar.pipeline.rows import Carried

NAMESPACE = "public/default"
ORDERS = f"persistent://{NAMESPACE}/orders"


class Reader:
    """A task with one source, whose broker has one topic."""

    def __init__(self, broker: HandBroker | None = None, *, rival: str = "", newer_lease: bool = False) -> None:
        self.broker = broker or HandBroker("pulsar://ewr:6650")
        self.broker.namespaces[NAMESPACE] = [ORDERS]
        self.broker.rival, self.broker.newer_lease = rival, newer_lease
        self.hand = HandLoop(self.broker)
        self.loop: asyncio.AbstractEventLoop = self.hand
        self.rng = random.Random(1)
        self.budget = Budget()
        self.target, self.lease, self.pipeline = "jfk", 7, "host:1:a"
        self.carrying, self.succeeded = True, False
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
    assert reader.metadata() == [{"magnetar.lease": "7", "magnetar.copies": "true", "magnetar.pipeline": "host:1:a"}]
    assert (reader.tail.live_links, reader.tail.parked, reader.tail.rivals) == (1, {}, set())


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
