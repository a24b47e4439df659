"""Commands in one read of the socket are handled together, with the same results as one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ServerError
from magnetar.broker.session import checks
from magnetar.broker.session import producers as session_producers
from magnetar.sim.cluster import TOPIC, Client, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.frame import encode_command
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from magnetar.broker.publish.interfaces import Producer, SendHead


def unacknowledged(cluster: Cluster, subscription: str) -> int:
    return cluster.topics.loaded[TOPIC].subscriptions[subscription].backlog


def published(cluster: Cluster, count: int) -> tuple[Client, list[pb.MessageIdData]]:
    client = cluster.client()
    client.produce()
    client.send(*map(str, range(count)))
    return client, [message_id(position) for _, position in client.receipts()]


def test_acknowledgements_of_several_consumers_in_one_read() -> None:
    cluster = Cluster()
    client, ids = published(cluster, 6)
    client.subscribe(consumer_id=1, subscription="a")
    client.subscribe(consumer_id=2, subscription="b")
    client.say(
        *(commands.ack(consumer_id=1, message_ids=[each]) for each in ids[:3]),
        commands.ack(consumer_id=2, message_ids=[ids[0]]),
        commands.ack(consumer_id=1, message_ids=[ids[4]]),
        commands.ack(consumer_id=2, message_ids=[ids[3]], cumulative=True, request_id=7),
        commands.ack(consumer_id=1, message_ids=[ids[5]], request_id=8),
        commands.ack(consumer_id=1, message_ids=[ids[3]], request_id=9),
    )
    assert unacknowledged(cluster, "a") == 0
    assert unacknowledged(cluster, "b") == 5, "a cumulative acknowledgement of a shared subscription has no effect"
    assert sorted(response.request_id for response in client.take("ACK_RESPONSE")) == [7, 8, 9]


def test_an_acknowledgement_of_an_entry_to_come_has_no_effect() -> None:
    cluster = Cluster()
    client, ids = published(cluster, 2)
    client.subscribe()
    client.messages()
    coming = pb.MessageIdData(ledgerId=ids[1].ledgerId, entryId=ids[1].entryId + 1)
    elsewhere = pb.MessageIdData(ledgerId=ids[1].ledgerId + 1, entryId=0)
    client.say(*(commands.ack(consumer_id=1, message_ids=[each]) for each in (ids[1], coming, elsewhere)))
    client.send("coming", first=2)
    assert client.messages() == ["coming"]
    assert unacknowledged(cluster, "worker") == 2


def test_an_acknowledgement_stays_before_what_follows_it() -> None:
    cluster = Cluster()
    client, ids = published(cluster, 3)
    client.subscribe()
    client.messages()
    client.say(
        commands.ack(consumer_id=1, message_ids=[ids[0]]),
        commands.ack(consumer_id=1, message_ids=[ids[1]]),
        commands.redeliver_unacknowledged_messages(consumer_id=1),
    )
    assert client.messages() == ["2"]


def test_many_sends_of_one_read_are_published_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_producers, "_AT_ONCE_MAX", 4)
    sizes: list[int] = []

    def counting(producer: Producer, heads: Sequence[SendHead], entries: list[bytes], *, is_chunk: bool) -> None:
        sizes.append(len(heads))
        checks.check(producer, heads, entries, is_chunk=is_chunk)

    monkeypatch.setattr(session_producers, "check", counting)
    client, _ = published(Cluster(), 0)
    client.send(*map(str, range(10)))
    assert sizes == [4, 4, 2]
    assert [sequence_id for sequence_id, _ in client.receipts()] == list(range(10))


def test_a_wrong_send_among_others_is_refused_alone() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    broken = bytearray(entry("broken"))
    broken[-1] ^= 1
    shadow = pb.CommandSend(producer_id=1, sequence_id=3, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
    client.say(
        commands.send(producer_id=1, sequence_id=0, entry=entry("first")),
        commands.send(producer_id=1, sequence_id=1, entry=bytes(broken)),
        commands.send(producer_id=1, sequence_id=2, entry=b"\x00\x00\x00\x02\xff\xff"),
        encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=shadow), entry("shadow")),
        commands.send(producer_id=1, sequence_id=4, entry=entry("last")),
    )
    refused = {error.sequence_id: error.error for error in client.take("SEND_ERROR")}
    assert refused == {1: ServerError.ChecksumError, 2: ServerError.MetadataError, 3: ServerError.NotAllowedError}
    assert [sequence_id for sequence_id, _ in client.receipts()] == [0, 4]
    client.subscribe()
    assert client.messages() == ["first", "last"]


def test_producers_of_one_connection_take_turns_in_one_read() -> None:
    cluster = Cluster()
    client = cluster.client()
    for producer_id in (1, 2):
        client.produce(producer_id=producer_id, name=f"p{producer_id}")
    client.say(
        *(
            commands.send(producer_id=1 + number % 2, sequence_id=number, entry=entry(str(number)))
            for number in range(6)
        )
    )
    for producer_id in (1, 2):
        own = [receipt for receipt in client.heard if receipt.command.send_receipt.producer_id == producer_id]
        assert [frame.command.send_receipt.sequence_id for frame in own] == [producer_id - 1 + 2 * n for n in range(3)]
    client.subscribe()
    texts = client.messages()
    assert [text for text in texts if int(text) % 2] == ["1", "3", "5"]
    assert [text for text in texts if not int(text) % 2] == ["0", "2", "4"]
