"""A task's reader, with a real broker that is killed and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import Position
from magnetar.spark.read import range_reader
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.read.range_reader import RangeReader
from magnetar.spark.read.ranges import Range
from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish
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


def filled(broker: Broker, count: int) -> Range:
    """Publish messages, and return their range."""
    client = connect(broker.service_url)
    ids = publish(client, TOPIC, numbered(count), batching_enabled=False)
    client.close()
    return Range(TOPIC, Position(ids[0].ledger_id(), 0), Position(ids[-1].ledger_id(), ids[-1].entry_id() + 1), count)


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
