"""Distribution of non-persistent messages: a turn does a bounded part, and what waits for later turns is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.limits import Limit
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.session.producers import close
from magnetar.sim.cluster import Client, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.work import lines_run

if TYPE_CHECKING:
    from magnetar.broker.non_persistent.producer import NonPersistentProducer

NEWS = TopicName.parse("non-persistent://public/default/news")
FIRST = Position(0, 0)
WAITING_MAX = 10


class Turns:
    """Counts pieces of work, of which a turn has few."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pieces = 1_000_000
        self.turns = 0
        turns = cluster.environment.turns
        soon = turns.soon

        def is_over() -> bool:
            self.pieces -= 1
            return self.pieces <= 0

        def count_turn(*work: object) -> None:
            self.turns += 1
            soon(*work)  # type: ignore[arg-type]

        monkeypatch.setattr(turns, "is_over", is_over)
        monkeypatch.setattr(turns, "soon", count_turn)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(settings={"maxConcurrentNonPersistentMessagePerConnection": WAITING_MAX})


@pytest.fixture
def turns(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(cluster, monkeypatch)


def connected(cluster: Cluster) -> Client:
    client = cluster.client()
    client.topic = NEWS
    return client


def consumers(cluster: Cluster, count: int) -> list[Client]:
    found = []
    for number in range(count):
        found.append(connected(cluster))
        found[-1].subscribe(subscription=f"s{number}")
    return found


def sends(first: int, texts: str) -> bytes:
    return b"".join(
        commands.send(producer_id=1, sequence_id=first + at, entry=entry(text)) for at, text in enumerate(texts)
    )


def test_a_turn_without_time_left_continues_later(cluster: Cluster, turns: Turns) -> None:
    readers, client = consumers(cluster, 5), connected(cluster)
    client.produce()
    turns.pieces = 2
    client.say(sends(0, "ab"))
    assert turns.turns > 0
    assert [reader.messages() for reader in readers] == [["a", "b"]] * 5
    assert client.receipts() == [(0, FIRST), (1, FIRST)]
    assert client.session.undelivered == 0


def test_messages_beyond_the_limit_are_dropped_with_receipts_in_order(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reader,), client = consumers(cluster, 1), connected(cluster)
    client.produce()
    turns = cluster.environment.turns
    monkeypatch.setattr(turns, "is_over", lambda: True)
    producer: NonPersistentProducer = client.session.producers[1]  # type: ignore[assignment]

    def publish_thrice() -> None:
        for first in (0, 8, 16):
            producer.publish([(first + at, 0, 1) for at in range(8)], [entry(str(first + at)) for at in range(8)])

    cluster.do(publish_thrice)
    assert reader.messages() == [str(number) for number in range(WAITING_MAX)]
    dropped = [(number, EARLIEST) for number in range(WAITING_MAX, 24)]
    assert client.receipts() == [(number, FIRST) for number in range(WAITING_MAX)] + dropped
    assert producer.dropped == 24 - WAITING_MAX
    assert cluster.environment.limit_hits.counts()[Limit.NON_PERSISTENT_MESSAGES] > 0
    assert client.session.undelivered == 0
    assert cluster.environment.memory.publishes_in_flight == 0


def test_a_long_run_within_one_turn_is_not_limited(cluster: Cluster) -> None:
    (reader,), client = consumers(cluster, 1), connected(cluster)
    client.produce()
    client.say(sends(0, "x" * 5 * WAITING_MAX))
    assert len(reader.messages()) == 5 * WAITING_MAX
    assert len(client.receipts()) == 5 * WAITING_MAX


def test_an_unload_ends_what_waits(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    (reader,), client = consumers(cluster, 1), connected(cluster)
    client.produce()
    monkeypatch.setattr(cluster.environment.turns, "is_over", lambda: True)
    producer = client.session.producers[1]
    topics = cluster.domains.non_persistent

    def publish_and_unload() -> None:
        producer.publish([(0, 0, 1)], [entry("a")])
        producer.publish([(1, 0, 1)], [entry("b")])
        topics.close(NEWS)
        producer.publish([(2, 0, 1)], [entry("c")])

    cluster.do(publish_and_unload)
    assert client.receipts() == []
    assert len(client.take("CLOSE_PRODUCER")) == 1
    assert len(reader.take("CLOSE_CONSUMER")) == 1
    assert NEWS not in topics.loaded
    assert client.session.undelivered == 0
    assert cluster.environment.memory.publishes_in_flight == 0
    client.produce(producer_id=2)
    assert client.take("PRODUCER_SUCCESS")
    assert NEWS in topics.loaded


def test_a_producer_that_is_being_closed_is_answered_although_the_topic_is_unloaded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers(cluster, 1)
    client = connected(cluster)
    client.produce()
    client.heard.clear()
    monkeypatch.setattr(cluster.environment.turns, "is_over", lambda: True)
    producer = client.session.producers[1]

    def publish_and_close() -> None:
        producer.publish([(0, 0, 1)], [entry("a")])
        close(client.session, pb.CommandCloseProducer(producer_id=1, request_id=9))
        cluster.domains.non_persistent.close(NEWS)

    cluster.do(publish_and_close)
    assert client.names() == ["SUCCESS"]


def test_the_end_of_a_connection_ends_its_producers_and_consumers(cluster: Cluster) -> None:
    (reader,), client = consumers(cluster, 1), connected(cluster)
    client.produce()
    topic = cluster.domains.non_persistent.loaded[NEWS]
    reader.leave()
    client.leave()
    assert topic.is_unused


def test_the_work_for_a_message_grows_with_the_subscriptions_only() -> None:
    def work(subscriptions: int, messages: int) -> int:
        cluster = Cluster()
        consumers(cluster, subscriptions)
        client = connected(cluster)
        client.produce()
        return lines_run(lambda: client.say(sends(0, "x" * messages)))

    assert work(40, 10) < 1.5 * 4 * work(10, 10)
    assert work(10, 100) < 1.5 * 10 * work(10, 10)
