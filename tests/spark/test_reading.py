"""A task's reader, with a real broker that is killed and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import Position
from magnetar.jobs.pieces import OPENED_AHEAD, Piece, chunks
from magnetar.spark.read import range_reader
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.read.range_reader import RangeReader
from magnetar.spark.read.ranges import Range
from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish
from tests.kit.processes import connections_to
from tests.kit.wait import wait_until
from tests.spark.queries import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "persistent://public/default/reading"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as running:
        running.rest.post(
            "namespaces/public/default/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        )
        yield running


def options(broker: Broker) -> ReadOptions:
    return ReadOptions.of({**addresses(broker), "topic": TOPIC})


def filled(broker: Broker, count: int, topic: str = TOPIC) -> Range:
    """Publish messages, and return their range."""
    client = connect(broker.service_url)
    ids = publish(client, topic, numbered(count), batching_enabled=False)
    client.close()
    return Range(topic, Position(ids[0].ledger_id(), 0), Position(ids[-1].ledger_id(), ids[-1].entry_id() + 1), count)


def test_a_reader_continues_after_its_broker_was_killed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "CHUNK_MESSAGES", 10)
    monkeypatch.setattr(range_reader, "READ_AHEAD", 10)
    monkeypatch.setattr(range_reader, "ATTEMPTS", 100)
    wanted = filled(broker, 50)
    found = []
    with RangeReader(options(broker), wanted) as reader:
        for number, chunk in enumerate(reader.chunks()):
            found += [stored.position.entry_id for stored in chunk]
            if number == 1:
                broker.kill()
                broker.start()
    assert found == list(range(50))
    assert reader.entries == 50


def test_a_topic_that_was_deleted_meanwhile_is_an_error_and_is_not_created_again(broker: Broker) -> None:
    wanted = filled(broker, 3)
    broker.rest.delete("persistent/public/default/reading")
    with RangeReader(options(broker), wanted) as reader, pytest.raises(RequestError) as raised:
        list(reader.chunks())
    assert raised.value.code is ServerError.TopicNotFound
    assert broker.rest.get("persistent/public/default") == []


def test_many_small_topics_are_read_in_order_on_one_connection(broker: Broker) -> None:
    topics = [f"{TOPIC}-{number}" for number in range(OPENED_AHEAD + 4)]
    wanted = [filled(broker, 3, topic) for topic in topics]
    pieces = [Piece("ewr", each.topic, each.start, each.end, each.entries, 0) for each in wanted]
    wait_until(lambda: not connections_to(broker.binary_port), what="the end of the producers' connections")
    found, connections = [], set()
    for piece, chunk in chunks({"ewr": options(broker)}, pieces):
        found.append((piece.topic, [stored.position.entry_id for stored in chunk]))
        connections.add(connections_to(broker.binary_port))
    assert found == [(topic, [0, 1, 2]) for topic in topics]
    assert connections == {1}


def test_a_reader_opened_ahead_reads_far_ahead(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "CHUNK_MESSAGES", 200)
    wanted = [filled(broker, 500, f"{TOPIC}-{number}") for number in range(2)]
    pieces = [Piece("ewr", each.topic, each.start, each.end, each.entries, 0) for each in wanted]

    def sent() -> int:
        (reader,) = broker.rest.get(f"persistent/{pieces[1].topic.partition('://')[2]}/stats")["subscriptions"].values()
        return int(reader["msgOutCounter"])

    of_second = (chunk for piece, chunk in chunks({"ewr": options(broker)}, pieces) if piece == pieces[1])
    assert len(next(of_second)) == 200
    wait_until(lambda: sent() >= 300, what="messages after the first chunk")
    assert [len(chunk) for chunk in of_second] == [200, 100]


def test_topics_that_are_not_read_any_more_leave_no_consumer(broker: Broker) -> None:
    wanted = [filled(broker, 3, f"{TOPIC}-{number}") for number in range(4)]
    pieces = [Piece("ewr", each.topic, each.start, each.end, each.entries, 0) for each in wanted]
    broker.rest.delete(f"persistent/{pieces[0].topic.partition('://')[2]}")
    with pytest.raises(RequestError):
        list(chunks({"ewr": options(broker)}, pieces))
    others = [f"persistent/{each.topic.partition('://')[2]}/stats" for each in wanted[1:]]
    wait_until(lambda: not any(broker.rest.get(each)["subscriptions"] for each in others), what="no reader")
