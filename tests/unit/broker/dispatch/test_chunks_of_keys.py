"""Key_Shared: all chunks of a message go to one consumer, in order, also when the owner of its key changes."""

# ruff: noqa: ANN401 - settings have values of every type

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.sim.cluster import Client, Cluster, Key_Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

NAMES = ("", "one", "two")
"""Names of the consumers by their ids. The second one owns ``KEY`` when it is there (see test_key_shared)."""

KEY = "key-0"
KEYS = (KEY, KEY, "key-1")

both_orders = pytest.mark.parametrize("in_order", [True, False], ids=["in order", "in any order"])


def chunk(text: str, key: str = KEY) -> bytes:
    """Build a chunk of the message with the letter of the text, the last one with a dot; or an ordinary entry."""
    letter, number, is_last = text[0], text[1:].rstrip("."), text.endswith(".")
    chunks = int(number) + 1 if is_last else 99
    fields: dict[str, Any] = {"uuid": letter, "num_chunks_from_msg": chunks, "chunk_id": int(number)} if number else {}
    return entry(text, partition_key=key, **fields)


def publish(client: Client, *texts: str, key: str = KEY) -> None:
    """Publish in one read of the socket."""
    client.say(*[commands.send(producer_id=1, sequence_id=0, entry=chunk(text, key)) for text in texts])


def join(client: Client, consumer_id: int, *, in_order: bool, permits: int = 99) -> None:
    meta = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=not in_order)
    client.subscribe(consumer_id, Key_Shared, permits, consumer_name=NAMES[consumer_id], keySharedMeta=meta)


def producing(**config: Any) -> Client:
    client = Cluster(settings=config).client()
    client.produce()
    return client


def sent(client: Client) -> list[tuple[int, str]]:
    """Return the id of the consumer and the text of each message since the last call."""
    frames = [frame for frame in client.heard if frame.command.HasField("message")]
    texts = client.messages()
    return [(frame.command.message.consumer_id, text) for frame, text in zip(frames, texts, strict=True)]


@both_orders
def test_a_message_that_has_begun_is_completed_at_its_consumer(*, in_order: bool) -> None:
    client = producing()
    join(client, 1, in_order=in_order)
    publish(client, "a0", "a1")
    held = [message.message_id for message in client.take("MESSAGE")]
    join(client, 2, in_order=in_order)
    publish(client, "x", "a2.", "y")
    ids = [message.message_id for message in client.take("MESSAGE") if message.consumer_id == 1]
    held += ids
    assert [each.entryId for each in held] == [0, 1, 2, 3]  # "y" belongs to the new consumer
    client.ack(*map(position_of, held))
    publish(client, "b0", "b1.")
    assert sent(client)[-2:] == [(2, "b0"), (2, "b1.")]


@both_orders
def test_the_new_consumer_gets_the_message_after_that(*, in_order: bool) -> None:
    client = producing()
    join(client, 1, in_order=in_order)
    publish(client, "a0")
    join(client, 2, in_order=in_order)
    assert sent(client) == [(1, "a0")]
    publish(client, "a1.", "b0", "b1.")
    assert sent(client) == [(1, "a1."), *([] if in_order else [(2, "b0"), (2, "b1.")])]


@both_orders
@pytest.mark.parametrize("how", ["leaves", "returns them", "returns all", "acknowledges them"])
def test_a_message_that_has_begun_moves_as_a_whole(*, in_order: bool, how: str) -> None:
    client = producing()
    join(client, 1, in_order=in_order, permits=2)
    publish(client, "a0", "a1")
    join(client, 2, in_order=in_order)
    publish(client, "a2")
    ids = [message.message_id for message in client.take("MESSAGE")]
    assert [each.entryId for each in ids] == [0, 1]
    if how == "leaves":
        client.say(commands.close_consumer(consumer_id=1, request_id=9))
    elif how == "acknowledges them":
        client.ack(*map(position_of, ids))
    else:
        client.say(
            commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids if how == "returns them" else [])
        )
    publish(client, "a3.")
    texts = ["a2", "a3."] if how == "acknowledges them" else ["a0", "a1", "a2", "a3."]
    assert sent(client) == [(2, text) for text in texts]


class Model:
    """A cluster with one subscription, and the entries that its consumers hold."""

    def __init__(self, data: st.DataObject, *, in_order: bool, **config: Any) -> None:
        self.draw = data.draw
        self.in_order = in_order
        self.client = producing(**config)
        self.published = 0
        self.letters = map(chr, range(0x100, 0x1000))
        self.messages = [(next(self.letters), 0) for _ in KEYS]
        """For each key, the message that is being published, and the number of its chunks so far."""
        self.held: dict[int, dict[str, pb.MessageIdData]] = {}

    def publish(self, _: int) -> None:
        for number in self.draw(st.lists(st.sampled_from(range(len(KEYS))), min_size=1, max_size=6)):
            letter, chunks = self.messages[number]
            kind = self.draw(st.sampled_from(["chunk", "chunk", "last", "whole"]))
            if kind == "whole":
                publish(self.client, next(self.letters), key=KEYS[number])
            else:
                publish(self.client, f"{letter}{chunks}{'.' if kind == 'last' else ''}", key=KEYS[number])
                self.messages[number] = (letter, chunks + 1) if kind == "chunk" else (next(self.letters), 0)
            self.published += 1

    def join_or_leave(self, consumer_id: int) -> None:
        if self.held.pop(consumer_id, None) is None:
            self.held[consumer_id] = {}
            join(self.client, consumer_id, in_order=self.in_order, permits=3)
        else:
            self.client.say(commands.close_consumer(consumer_id=consumer_id, request_id=self.client.request_id()))

    def flow(self, consumer_id: int) -> None:
        permits = self.draw(st.integers(1, 4))
        self.client.say(commands.flow(consumer_id=consumer_id, message_permits=permits))

    def give_back(self, consumer_id: int) -> None:
        """Return one message, as clients do: all of its chunks, or a whole one."""
        held = self.held.get(consumer_id)
        if held:
            letter = self.draw(st.sampled_from(sorted({text[0] for text in held})))
            ids = [held.pop(text) for text in sorted(held) if text[0] == letter]
            self.client.say(commands.redeliver_unacknowledged_messages(consumer_id=consumer_id, message_ids=ids))

    def look(self) -> None:
        """Check what was sent since the last call."""
        heard = [frame.command.message.message_id for frame in self.client.heard if frame.command.HasField("message")]
        for sent_id, (consumer_id, text) in zip(heard, sent(self.client), strict=True):
            letter, number = text[0], text[1:].rstrip(".")
            assert all(text not in its for its in self.held.values())
            holders = [each for each, its in self.held.items() if any(one[0] == letter for one in its)]
            assert holders in ([], [consumer_id]), "a message is divided"
            before = {f"{letter}{earlier}" for earlier in range(int(number or 0))}
            assert before <= self.held[consumer_id].keys(), "out of order"
            self.held[consumer_id][text] = sent_id
        assert not self.client.cluster.loop.problems


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([1, 3, 100]))
def test_no_message_is_ever_divided(data: st.DataObject, in_order: bool, cached: bool, read_max: int) -> None:
    model = Model(data, in_order=in_order, dispatcherMaxReadBatchSize=read_max)
    model.client.cluster.store.cached = cached
    model.join_or_leave(1)
    for _ in range(data.draw(st.integers(1, 30))):
        act = data.draw(
            st.sampled_from([model.publish, model.publish, model.flow, model.give_back, model.join_or_leave])
        )
        act(data.draw(st.sampled_from([1, 2])))
        model.look()
    for consumer_id in (1, 2):
        if consumer_id in model.held:
            model.join_or_leave(consumer_id)
            model.look()
    model.join_or_leave(1)
    model.client.say(commands.flow(consumer_id=1, message_permits=9999))
    model.look()
    assert len(model.held[1]) == model.published
