"""Random holes in a large backlog are persisted: no acknowledged message is delivered again after ``kill -9``."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
from typing import TYPE_CHECKING

import pytest

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.broker import service
from magnetar.broker.settings.config import BrokerConfig
from magnetar.cursor.ranges import ranges_of
from tests.kit.broker import Broker
from tests.kit.child import LOOPBACK
from tests.kit.raw import RawConnection, entry

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.broker.topic.topic import Topic

TOPIC = TopicName.parse("persistent://public/default/holes")
APPENDED_AT_ONCE = 500
ACKNOWLEDGED_AT_ONCE = 10_000
PERMITS = 1_000
DELTA_BYTES_MAX = 64 * 1024
UNLIMITED = {"maxUnackedMessagesPerConsumer": 0, "maxUnackedMessagesPerSubscription": 0}


def left_out(entries: int, holes: int) -> set[int]:
    """Return the numbers of the entries that are never acknowledged, including the first, so that all are holes."""
    return set(random.Random(entries).sample(range(1, entries - 1), holes))


def fill_and_die(data: Path, entries: int, holes: int) -> None:
    """Publish, acknowledge all but the holes in random order, and exit as soon as that is durable."""
    asyncio.run(_fill_and_die(data, entries, holes))


async def _fill_and_die(data: Path, entries: int, holes: int) -> None:
    config = BrokerConfig(dataDirectory=data, bindAddress=LOOPBACK, brokerServicePort=0, webServicePort=0)
    broker = service.Broker(config)
    await broker.start()
    topic = broker.topics.get_or_create(TOPIC)
    subscription = topic.create_subscription("s", topic.log.before_first())
    run = [entry(b"")] * APPENDED_AT_ONCE
    for first in range(0, entries, APPENDED_AT_ONCE):
        topic.log.append(run, lambda _position, _error: None)
        if first % ACKNOWLEDGED_AT_ONCE == 0:
            await broker.environment.durable()
    await broker.environment.durable()
    kept = left_out(entries, holes)
    order = [number for number in range(entries) if number not in kept]
    random.Random(holes).shuffle(order)
    cursor = subscription.cursor
    for start in range(0, len(order), ACKNOWLEDGED_AT_ONCE):
        for ledger_id, entry_ids in by_ledger(topic, order[start : start + ACKNOWLEDGED_AT_ONCE]).items():
            subscription.entries_deleted(cursor.acknowledge_ranges(ranges_of(ledger_id, entry_ids)))
        before = cursor.sizes.delta_bytes_written
        await subscription.flushes.durable()
        assert cursor.sizes.delta_bytes_written - before < DELTA_BYTES_MAX
    os.kill(os.getpid(), signal.SIGKILL)


def by_ledger(topic: Topic, numbers: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number in numbers:
        ledger_id, entry_id = topic.ledger.position_at(topic.ledger.first_position, number)
        found.setdefault(ledger_id, []).append(entry_id)
    return found


def delivered(broker: Broker, count: int) -> list[Position]:
    """Return the positions of ``count`` messages, and of messages after one more FLOW, which must not exist."""
    positions: list[Position] = []
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(str(TOPIC), "s")
        connection.flow(PERMITS)
        granted = PERMITS
        while len(positions) < count:
            for frame in connection.gather(1.0):
                message_id = frame.command.message.message_id
                positions.append(Position(message_id.ledgerId, message_id.entryId))
            if granted - len(positions) < PERMITS // 2:
                connection.flow(PERMITS)
                granted += PERMITS
        assert connection.is_answering()
        positions += [
            Position(each.message_id.ledgerId, each.message_id.entryId) for each in connection.received("MESSAGE")
        ]
    return positions


@pytest.mark.parametrize(
    ("entries", "holes"),
    [
        (100_000, 10_000),
        pytest.param(10_000_000, 1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
    ],
)
def test_nothing_acknowledged_comes_again(tmp_path: Path, entries: int, holes: int) -> None:
    filler = multiprocessing.get_context("spawn").Process(target=fill_and_die, args=(tmp_path / "data", entries, holes))
    filler.start()
    filler.join()
    assert filler.exitcode == -signal.SIGKILL
    with Broker(tmp_path, settings=UNLIMITED) as broker:
        ledgers = broker.rest.internal_stats(str(TOPIC))["ledgers"]
        positions = [Position(each["ledgerId"], number) for each in ledgers for number in range(each["entries"])]
        assert len(positions) == entries
        assert broker.rest.backlog(str(TOPIC), "s") == holes
        expected = [positions[number] for number in sorted(left_out(entries, holes))]
        assert delivered(broker, holes) == expected
