"""Shared: all chunks of a message go to one consumer, in order, since only so can a client put it together."""

# ruff: noqa: ANN401 - settings have values of every type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.limits import Limit
from magnetar.broker.dispatch import shared
from magnetar.sim.cluster import Client, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.broker.dispatch.replay import Replay
    from magnetar.wire.proto import pulsar_api_pb2 as pb

Sent = list[tuple[int, str]]
"""The id of the consumer and the text of each message."""


def chunk(text: str) -> bytes:
    """Build a chunk of the message with the letter of the text, or an ordinary entry."""
    letter, number = text[0], text[1:]
    fields: dict[str, Any] = {"uuid": letter, "num_chunks_from_msg": 9, "chunk_id": int(number)} if number else {}
    return entry(text, **fields)


def publish(client: Client, *texts: str) -> None:
    """Publish in one read of the socket."""
    client.say(*[commands.send(producer_id=1, sequence_id=0, entry=chunk(text)) for text in texts])


def sent(client: Client) -> Sent:
    """Return what was sent since the last call."""
    frames = [frame for frame in client.heard if frame.command.HasField("message")]
    texts = client.messages()
    return [(frame.command.message.consumer_id, text) for frame, text in zip(frames, texts, strict=True)]


def consuming(*permits: int, **config: Any) -> Client:
    """Subscribe a consumer for each number of permits; one message is their turn."""
    client = Cluster(settings={"dispatcherMaxRoundRobinBatchSize": 1, **config}).client()
    client.produce()
    for consumer_id, its in enumerate(permits, 1):
        client.subscribe(consumer_id, permits=its)
    return client


def replay_of(client: Client) -> Replay:
    """Return the queue of the entries to send again."""
    dispatcher = client.cluster.subscription().consumers.dispatcher
    assert isinstance(dispatcher, shared.SharedDispatcher)
    return dispatcher._replay


def hits(cluster: Cluster) -> dict[str, int]:
    """Return the limits that were reached, with their numbers of hits."""
    return {name: count for name, count in cluster.environment.limit_hits.counts().items() if count}


def test_chunks_follow_the_first_one() -> None:
    client = consuming(99, 99)
    publish(client, "a0", "b0", "x", "a1", "y", "b1", "b2", "a2")
    assert sent(client) == [(1, "a0"), (2, "b0"), (1, "x"), (1, "a1"), (2, "y"), (2, "b1"), (2, "b2"), (1, "a2")]


def test_chunks_published_later_follow_too() -> None:
    client = consuming(99, 99)
    for text in ("a0", "a1", "b0", "a2"):
        publish(client, text)
    received = dict[str, set[int]]()
    for consumer_id, text in sent(client):
        received.setdefault(text[0], set()).add(consumer_id)
    assert len(received["a"]) == 1


def test_chunks_wait_for_their_consumer_and_hold_up_nobody() -> None:
    client = consuming(1, 99)
    publish(client, "a0", "a1", "x", "a2", "y")
    assert sent(client) == [(1, "a0"), (2, "x"), (2, "y")]
    client.say(commands.flow(consumer_id=1, message_permits=1))
    assert sent(client) == [(1, "a1")]
    publish(client, "a3")
    client.say(commands.flow(consumer_id=1, message_permits=5))
    assert sent(client) == [(1, "a2"), (1, "a3")]


@pytest.mark.parametrize("how", ["leaves", "returns them", "returns all"])
def test_chunks_that_come_back_are_sent_together(how: str) -> None:
    client = consuming(2, 99)
    publish(client, "a0", "a1", "a2")
    ids = [message.message_id for message in client.take("MESSAGE")]
    assert [each.entryId for each in ids] == [0, 1]
    client.say(
        commands.close_consumer(consumer_id=1, request_id=9)
        if how == "leaves"
        else commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids if how == "returns them" else [])
    )
    assert sent(client) == [(2, "a0"), (2, "a1"), (2, "a2")]


def test_chunks_wait_no_longer_when_the_others_were_acknowledged() -> None:
    client = consuming(1, 99)
    publish(client, "a0", "a1")
    (first,) = client.take("MESSAGE")
    client.ack(position_of(first.message_id))
    assert sent(client) == [(2, "a1")]


def test_a_chunk_that_is_acknowledged_elsewhere_while_it_waits_is_not_sent() -> None:
    client = consuming(1, 99)
    publish(client, "a0", "a1", "a2")
    (first,) = client.take("MESSAGE")
    waits = position_of(first.message_id)._replace(entry_id=1)
    subscription = client.cluster.subscription()
    client.cluster.do(lambda: subscription.free(subscription.cursor.state.acknowledge([waits])))
    client.say(commands.flow(consumer_id=1, message_permits=9))
    assert sent(client) == [(1, "a2")]


def test_reading_stops_while_too_many_chunks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "WAITING_CHUNKS_MAX", 3)
    client = consuming(1, 99)
    publish(client, "a0", *[f"a{number}" for number in range(1, 9)], "x")
    assert sent(client) == [(1, "a0")]
    assert replay_of(client).aside == 3
    assert hits(client.cluster) == {Limit.WAITING_CHUNKS.value: 1}
    client.say(commands.flow(consumer_id=1, message_permits=2))
    assert sent(client) == [(1, "a1"), (1, "a2")]
    assert replay_of(client).aside == 3
    client.say(commands.flow(consumer_id=1, message_permits=9))
    assert sent(client) == [*[(1, f"a{number}") for number in range(3, 9)], (2, "x")]


def test_chunks_that_waited_are_called_in_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "RETURNED_AT_ONCE_MAX", 2)
    client = consuming(1, 99)
    publish(client, *[f"a{number}" for number in range(9)])
    replay = replay_of(client)
    call_in, moved = replay.call_in, []

    def counting(*arguments: Any) -> None:
        before = replay.aside
        call_in(*arguments)
        moved.append(before - replay.aside)

    monkeypatch.setattr(replay, "call_in", counting)
    client.say(commands.flow(consumer_id=1, message_permits=3))
    publish(client, "a9")
    client.say(commands.flow(consumer_id=1, message_permits=9))
    assert sent(client) == [(1, f"a{number}") for number in range(10)]
    assert max(moved) == 2


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans(), st.sampled_from([1, 3, 100]))
def test_every_chunk_is_sent_in_order_to_the_consumer_of_the_others(
    data: st.DataObject, cached: bool, read_max: int
) -> None:
    client = consuming(5, 5, dispatcherMaxReadBatchSize=read_max)
    client.cluster.store.cached = cached
    counts = dict.fromkeys("abcx", 0)
    held: dict[int, dict[str, pb.MessageIdData]] = {1: {}, 2: {}}

    def look() -> None:
        ids = [frame.command.message.message_id for frame in client.heard if frame.command.HasField("message")]
        for sent_id, (consumer_id, text) in zip(ids, sent(client), strict=True):
            letter, number = text[0], text[1:]
            assert all(text not in its for its in held.values())
            if number:
                others = [each for each, its in held.items() if any(one[0] == letter for one in its)]
                assert others in ([], [consumer_id]), "a message is divided"
                before = {f"{letter}{earlier}" for earlier in range(int(number))}
                assert before <= held[consumer_id].keys(), "out of order"
            held[consumer_id][text] = sent_id

    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["publish", "flow", "return", "leave"]))
        consumer_id = data.draw(st.sampled_from([1, 2]))
        if action == "publish":
            texts = list[str]()
            for letter in data.draw(st.lists(st.sampled_from("abcx"), min_size=1, max_size=6)):
                texts.append(chr(0x100 + counts[letter]) if letter == "x" else f"{letter}{counts[letter]}")
                counts[letter] += 1
            publish(client, *texts)
        elif action == "flow":
            client.say(commands.flow(consumer_id=consumer_id, message_permits=data.draw(st.integers(1, 4))))
        elif action == "return" and held[consumer_id]:
            given_back = data.draw(st.lists(st.sampled_from(sorted(held[consumer_id])), min_size=1, unique=True))
            ids = [held[consumer_id].pop(text) for text in given_back]
            client.say(commands.redeliver_unacknowledged_messages(consumer_id=consumer_id, message_ids=ids))
        elif action == "leave":
            held[consumer_id].clear()
            client.say(commands.close_consumer(consumer_id=consumer_id, request_id=client.request_id()))
            look()
            client.subscribe(consumer_id, permits=3)
        look()
    client.say(commands.flow(consumer_id=1, message_permits=999), commands.flow(consumer_id=2, message_permits=999))
    look()
    assert sum(map(len, held.values())) == sum(counts.values())
    assert not client.cluster.loop.problems
