"""The writer's state of its target, with a broker that grants everything."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline.connections.reports import Receipts, Refused, Report, TargetDown, TargetUp
from magnetar.pipeline.rows import Attachment, Carried
from magnetar.pipeline.writing.target import Target
from magnetar.sim.cluster import entry
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.entries.markers import marker_type
from magnetar.wire.entries.origin import origin_of
from magnetar.wire.message_id import Link
from tests.unit.pipeline.hand_broker import HandBroker, HandLoop

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 1000
ORDERS, PAYMENTS = "persistent://public/default/orders", "persistent://public/default/payments"


class Writer:
    """A target, its broker, and the reports."""

    def __init__(self, *more: HandBroker, max_message_size: int = LIMIT, version: str = "Magnetar") -> None:
        self.broker = HandBroker("pulsar://jfk:6650", max_message_size)
        self.broker.version = version
        self.loop = HandLoop(self.broker, *more)
        self.reports: list[Report] = []
        rng = random.Random(1)
        self.target = Target(self.loop, "jfk", 1, self.broker.url, self.reports.append, rng)
        self.target.start()
        self.loop.run()

    def send(self, *entries: Carried) -> None:
        self.target.send(list(entries))
        self.loop.run()

    def take(self) -> Sequence[Report]:
        reports = self.reports[:]
        self.reports.clear()
        return reports


def carried(topic: str, number: int, entry_id: int, size: int = 10) -> Carried:
    previous = Position(3, entry_id - 1) if entry_id else EARLIEST
    attachment = Attachment(number, "ewr", topic)
    return Carried(attachment, Position(3, entry_id), Link(previous, previous), entry("x" * size))


def test_an_entry_that_is_too_large_for_the_target_parks_its_topic_alone() -> None:
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0), carried(PAYMENTS, 2, 0))
    writer.take()
    writer.send(carried(ORDERS, 1, 1, size=LIMIT + 11_000), carried(ORDERS, 1, 2), carried(PAYMENTS, 2, 1))
    refused, *others = writer.take()
    assert isinstance(refused, Refused)
    assert (refused.attachment, refused.last) == (1, None)
    assert refused.reason.startswith("entry 3:1: a frame of 12")
    assert refused.reason.endswith(f"bytes, jfk takes {LIMIT + 10 * 1024} (maxMessageSize)")
    assert others == [Receipts(((2, Position(3, 1)),))]
    assert writer.broker.connections == 1
    assert max(len(body) for sent in writer.broker.entries.values() for body in sent) < LIMIT


def test_the_link_goes_on_once_the_target_takes_larger_messages() -> None:
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0, size=LIMIT + 11_000))
    writer.broker.max_message_size = 20_000
    writer.broker.drop()
    writer.loop.run()
    assert [type(report) for report in writer.take()] == [TargetUp, Refused, TargetDown]
    writer.loop.pass_time(10)
    writer.send(carried(ORDERS, 2, 0, size=LIMIT + 11_000))
    assert writer.take() == [TargetUp(), Receipts(((2, Position(3, 0)),))]


def test_the_target_is_told_the_life_of_the_source_where_that_is_known() -> None:
    writer = Writer()
    first, other = carried(ORDERS, 1, 0), carried(PAYMENTS, 2, 0)
    writer.send(first._replace(attachment=first.attachment._replace(life="ab12@1000")), other)
    assert writer.broker.metadata == [{"magnetar.life": "ab12@1000"}, {}]


def test_entries_of_another_life_of_the_source_get_a_producer_that_names_it() -> None:
    writer = Writer()
    lost, found = (
        each._replace(attachment=each.attachment._replace(life=life))
        for each, life in ((carried(ORDERS, 1, 0), "ab12@1000"), (carried(ORDERS, 2, 0), "cd34@5000"))
    )
    writer.send(lost)
    writer.take()
    writer.send(found)
    assert writer.broker.metadata == [{"magnetar.life": "ab12@1000"}, {"magnetar.life": "cd34@5000"}]
    assert writer.take() == [
        Refused(1, "the source lost its data and came back"),
        Receipts(((2, Position(3, 0)),)),
    ]


def test_a_foreign_target_is_asked_where_its_log_ends_before_anything_is_sent() -> None:
    writer = Writer(version="Pulsar Server 4.0.7")
    writer.send(carried(ORDERS, 1, 0), carried(ORDERS, 1, 1))
    assert writer.take() == [TargetUp(), Receipts(((1, Position(3, 1)),))]
    assert writer.broker.bookmarks == ["magnetar.bookmark.ewr"]
    fence, *entries = writer.broker.entries[1]
    assert marker_type(parse_metadata(fence)) is not None
    origins = [origin_of(parse_metadata(each)) for each in entries]
    assert [origin.position for origin in origins if origin is not None] == [Position(3, 0), Position(3, 1)]


def test_a_foreign_target_that_closes_the_bookmark_ends_the_link_until_it_is_taken_up_again() -> None:
    writer = Writer(version="Pulsar Server 4.0.7")
    writer.send(carried(ORDERS, 1, 0))
    writer.take()
    writer.broker.say(commands.close_consumer(consumer_id=1))
    writer.loop.run()
    assert writer.take() == [Refused(1, "the bookmark's consumer: the broker closed the consumer")]
    writer.send(carried(ORDERS, 2, 0))
    assert [type(report) for report in writer.take()] == [Receipts]


def test_a_bookmark_that_is_refused_refuses_the_link() -> None:
    writer = Writer(version="Pulsar Server 4.0.7")
    writer.broker.rival = "host:1:a"
    writer.send(carried(ORDERS, 1, 0))
    assert writer.take() == [TargetUp(), Refused(1, "held")]
