"""Seeks: the messages delivered afterwards, and the notifications of consumers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.broker.log import topic_log
from magnetar.broker.loop import slices
from magnetar.broker.session.consumers import seek
from magnetar.broker.subscription.resets import RETURN_MAX_S
from magnetar.broker.subscription.subscription import Subscription
from magnetar.sim.checks.times import first_published_since
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb


def published(cluster: Cluster, *texts: str) -> Client:
    client = cluster.client()
    client.produce()
    client.send(*texts)
    return client


def test_consumers_are_told_before_the_seek_is_answered() -> None:
    cluster = Cluster()
    client = published(cluster, "a", "b")
    positions = [position for _, position in client.receipts()]
    client.subscribe(kind=Exclusive)
    client.ack(*positions)
    client.names()
    client.say(commands.seek(consumer_id=1, request_id=9, position=positions[1]))
    assert client.names() == ["CLOSE_CONSUMER", "SUCCESS"]
    client.subscribe(kind=Exclusive)
    assert client.messages() == ["b"]


def test_seek_to_both_ends() -> None:
    cluster = Cluster()
    client = published(cluster, "a", "b")
    client.subscribe(kind=Exclusive)
    client.say(commands.seek(consumer_id=1, request_id=9, position=LATEST))
    client.messages()
    client.subscribe(kind=Exclusive)
    assert client.messages() == []
    client.say(commands.seek(consumer_id=1, request_id=9, position=EARLIEST))
    client.subscribe(kind=Exclusive)
    assert client.messages() == ["a", "b"]


def test_a_consumer_that_reconnects_early_is_admitted_after_the_response_to_the_seek() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    batch = commands.send(producer_id=1, sequence_id=0, num_messages=3, entry=entry("abc", num_messages_in_batch=3))
    client.say(batch)
    ((_, position),) = client.receipts()
    client.subscribe(kind=Exclusive)
    client.messages()
    client.names()
    cluster.prompt = False
    body = pb.CommandSeek(consumer_id=1, request_id=98, message_id=message_id(position, ack_set=[0b110]))
    client.say(commands.encode(body))
    client.subscribe(kind=Exclusive)
    assert client.names() == ["CLOSE_CONSUMER"]
    cluster.prompt = True
    cluster.settle()
    seek, subscribe = client.take("SUCCESS")
    assert (seek.request_id, subscribe.request_id) == (98, client.request_id() - 1)
    assert client.take("MESSAGE") == []
    client.say(commands.flow(consumer_id=1, message_permits=1))
    (message,) = client.take("MESSAGE")
    assert list(message.ack_set) == [0b110]


def test_a_reader_that_seeks_by_time_comes_back_to_where_it_sought() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    for number in range(3):
        dated = entry(str(number), publish_time=1000 + number)
        client.say(commands.send(producer_id=1, sequence_id=number, entry=dated))
    reader: dict[str, Any] = {
        "kind": Exclusive,
        "subscription": "reader-1",
        "durable": False,
        "start_message_id": message_id(EARLIEST),
    }
    client.subscribe(**reader)
    assert client.messages() == ["0", "1", "2"]
    client.say(commands.seek(consumer_id=1, request_id=9, publish_time_ms=1002))
    client.subscribe(**reader)
    assert client.messages() == ["2"]


def test_a_seek_that_comes_to_an_end_after_an_unload_fails_and_moves_nothing() -> None:
    cluster = Cluster()
    client = published(cluster, "a", "b", "c")
    positions = [position for _, position in client.receipts()]
    client.subscribe(kind=Exclusive)
    client.ack(*positions)
    cluster.loop.advance(1)
    cluster.settle()
    client.names()
    subscription = cluster.subscription()
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    seeking = cluster.loop.start(subscription.reset(EARLIEST))
    cluster.settle()
    assert "unloaded" in str(seeking.exception())
    cluster.crash()
    assert cluster.subscription().backlog == 0


def test_a_reader_that_just_leaves_leaves_nothing_behind() -> None:
    cluster = Cluster()
    client = published(cluster, "a")
    client.subscribe(kind=Exclusive, durable=False, subscription="reader-1")
    client.leave()
    assert cluster.topic().subscriptions == {}


def dated(cluster: Cluster, ages_s: list[float], run: int = 1) -> list[tuple[Position, int]]:
    """Publish an entry of each age, ``run`` of them in one read of the socket; return their positions and times."""
    client, now = cluster.client(), cluster.clock.now()
    client.produce()
    times = [int((now - age_s) * 1000) for age_s in ages_s]
    sends = [
        commands.send(producer_id=1, sequence_id=number, entry=entry(str(number), publish_time=time))
        for number, time in enumerate(times)
    ]
    for first in range(0, len(sends), run):
        client.say(*sends[first : first + run])
    return [(position, times[number]) for number, position in client.receipts()]


def sought(cluster: Cluster, time_ms: int) -> Position | None:
    """Return the first entry after a seek to a time; None if there is none."""
    log = cluster.topic().log
    task = cluster.loop.start(log.position_before_time(time_ms))
    cluster.settle()
    following = cluster.topic().ledger.next_position(task.result())
    return following if cluster.topic().ledger.contains(following) else None


@given(st.lists(st.integers(-500, 100_000), max_size=30), st.integers(-1000, 101_000), st.integers(1, 5))
def test_a_seek_by_time_skips_nothing_published_since(ages_s: list[float], age_s: int, run: int) -> None:
    cluster = Cluster()
    published_at = dated(cluster, ages_s, run)
    time_ms = int((cluster.clock.now() - age_s) * 1000)
    assert sought(cluster, time_ms) == first_published_since(published_at, time_ms)


def test_a_seek_by_time_finds_the_first_however_long_the_log_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_log, "SCAN_ENTRIES", 3)
    cluster = Cluster()
    published_at = dated(cluster, [50.0, 40.0, 900.0, 30.0, 900.0, 900.0, 900.0, 20.0, 900.0, 10.0], run=4)
    for age_s, index in ((45, 1), (35, 3), (25, 7), (15, 9)):
        assert sought(cluster, int((cluster.clock.now() - age_s) * 1000)) == published_at[index][0]
    assert sought(cluster, int((cluster.clock.now() - 5) * 1000)) is None


def test_entries_that_were_here_long_before_the_time_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    dated(cluster, [0.0] * 100)
    cluster.loop.advance(3600)
    (fresh, _), *_ = dated(cluster, [0.0])
    ledger = cluster.topic().ledger
    read_from: list[Position] = []
    read = ledger.read

    async def noted(position: Position, max_entries: int, max_bytes: int) -> list[tuple[Position, bytes]]:
        read_from.append(position)
        return await read(position, max_entries, max_bytes)

    monkeypatch.setattr(ledger, "read", noted)
    assert sought(cluster, int((cluster.clock.now() - 60) * 1000)) == fresh
    assert read_from == [fresh]


def test_a_seek_by_time_ends_where_the_log_is_trimmed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_log, "SCAN_ENTRIES", 2)
    cluster = Cluster()
    published_at = dated(cluster, [100.0] * 6)
    ledger = cluster.topic().ledger
    seeking = cluster.loop.start(cluster.topic().log.position_before_time(int(cluster.clock.now() * 1000)))
    ledger.close()
    ledger.trim(ledger.last_confirmed_entry, int(cluster.clock.now() * 1000), (0, 0))
    cluster.settle()
    assert seeking.result() <= published_at[-1][0]
    assert ledger.entries == 0


@pytest.mark.parametrize(("later_ms", "reads_each"), [(1, 5), (-1, 1)], ids=["no match", "first entry"])
def test_searches_by_time_take_turns(monkeypatch: pytest.MonkeyPatch, later_ms: int, reads_each: int) -> None:
    """Many concurrent searches would multiply the reads and checks in each turn of the event loop."""
    monkeypatch.setattr(topic_log, "SCAN_ENTRIES", 2)
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 1)
    cluster, searches = Cluster(), 10
    published(cluster, *map(str, range(10)))
    topic, loop, turn, reads = cluster.topic(), cluster.loop, 0, list[int]()
    read = topic.ledger.read

    def count() -> None:
        nonlocal turn
        turn += 1
        if not all(search.done() for search in found):
            loop.call_soon(count)

    def counted(*arguments: Any) -> Any:  # noqa: ANN401 - as ManagedLedger.read
        reads.append(turn)
        return read(*arguments)

    monkeypatch.setattr(topic.ledger, "read", counted)
    time_ms = int(cluster.clock.now() * 1000) + later_ms
    found = [loop.create_task(topic.log.position_before_time(time_ms)) for _ in range(searches)]
    loop.call_soon(count)
    loop.spin()
    expected = topic.ledger.last_confirmed_entry if later_ms > 0 else topic.log.before_first()
    assert {search.result() for search in found} == {expected}
    assert len(reads) == reads_each * searches
    assert len(set(reads)) == len(reads), "one read in a turn of the loop"


def test_the_seeks_of_one_client_do_not_delay_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 1)
    cluster, seeks = Cluster(), 20
    published(cluster, "a", "b")
    busy, other = cluster.client(), cluster.client()
    busy.subscribe(subscription="busy", kind=Exclusive)
    other.subscribe(subscription="other", kind=Exclusive)
    begun: list[str] = []
    reset = Subscription.reset

    async def noted(subscription: Subscription, *arguments: Any) -> None:  # noqa: ANN401 - as Subscription.reset
        begun.append(subscription.name)
        await reset(subscription, *arguments)

    monkeypatch.setattr(Subscription, "reset", noted)

    def seek_both() -> None:
        for client, count in ((busy, seeks), (other, 1)):
            for number in range(count):
                seek(client.session, pb.CommandSeek(consumer_id=1, request_id=number, message_publish_time=1))

    cluster.do(seek_both)
    assert len(busy.take("SUCCESS")) == seeks + 1
    assert len(begun) == seeks + 1
    assert begun.index("other") <= 2


def test_the_consumers_of_other_clients_are_told_of_a_seek_whose_client_leaves() -> None:
    cluster = Cluster()
    ((_, position),) = published(cluster, "a").receipts()
    others, seeker = cluster.client(), cluster.client()
    numbers = range(3 * slices.SLICE_ITEMS_MAX)
    for number in numbers:
        others.subscribe(number)
    assert others.messages() == ["a"]
    others.ack(position, consumer_id=0)
    seeker.subscribe()
    subscription = cluster.subscription()

    def leave_in_the_middle() -> None:
        if subscription.resets:
            seeker.session.closed()
        else:
            cluster.loop.call_soon(leave_in_the_middle)

    cluster.loop.call_soon(leave_in_the_middle)
    seeker.say(commands.seek(consumer_id=1, request_id=9, position=EARLIEST))
    closed = others.take("CLOSE_CONSUMER")
    assert sorted(command.consumer_id for command in closed) == list(numbers)
    others.subscribe(0)
    assert others.messages() == ["a"]
    cluster.loop.advance(1)
    cluster.settle()
    cluster.crash()
    again = cluster.client()
    again.subscribe()
    assert again.messages() == ["a"], "the place is durable as well"


@pytest.mark.parametrize("returns", [True, False])
def test_a_reader_that_does_not_return_after_a_seek_leaves_no_subscription(*, returns: bool) -> None:
    cluster = Cluster()
    client = published(cluster, "a")
    client.subscribe(kind=Exclusive, durable=False)
    client.say(commands.seek(consumer_id=1, request_id=9, position=EARLIEST))
    client.names()
    if returns:
        client.subscribe(kind=Exclusive, durable=False, initialPosition=pb.CommandSubscribe.Latest)
        assert client.messages() == ["a"], "the place of the seek"
    cluster.loop.advance(RETURN_MAX_S + 1)
    assert list(cluster.topic().subscriptions) == ["worker"] * returns
    client.leave()
    assert not cluster.topic().subscriptions


def test_a_reader_may_return_from_its_last_seek_for_the_whole_time() -> None:
    cluster = Cluster()
    client = published(cluster, "a")
    for _ in range(2):
        client.subscribe(kind=Exclusive, durable=False)
        client.say(commands.seek(consumer_id=1, request_id=9, position=EARLIEST))
        client.names()
        cluster.loop.advance(RETURN_MAX_S - 1)
    client.subscribe(kind=Exclusive, durable=False, initialPosition=pb.CommandSubscribe.Latest)
    assert client.messages() == ["a"], "the place of the last seek"
