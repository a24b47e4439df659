"""Commands with many entries are handled in parts, with the same results."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import RemoteProtocolError
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.session.receiving import receive
from magnetar.sim.cluster import Client, Cluster, Exclusive, Shared
from magnetar.wire import commands, frame, long_lists, varint
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

ENTRIES = 10


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "LONG_FROM_BYTES", 20)
    monkeypatch.setattr(long_lists, "IDS_MAX", 4)


def consumer(kind: pb.CommandSubscribe.SubType.ValueType = Shared) -> Client:
    client = Cluster().client()
    client.produce()
    client.subscribe(consumer_id=1, subscription="s", kind=kind, permits=100)
    client.send(*map(str, range(ENTRIES)))
    assert len(client.take("MESSAGE")) == ENTRIES
    client.names()
    return client


def ids(client: Client) -> list[pb.MessageIdData]:
    last = client.cluster.topic().ledger.last_confirmed_entry
    return [message_id(last._replace(entry_id=number)) for number in range(last.entry_id + 1)]


def test_the_answer_to_an_acknowledgement_follows_the_last_part(monkeypatch: pytest.MonkeyPatch) -> None:
    client = consumer()
    monkeypatch.setattr(LoopTurns, "is_over", lambda _: True)
    frames = client._connection.receive_gathering(commands.ack(consumer_id=1, message_ids=ids(client), request_id=7), 0)
    subscription = client.cluster.topic().subscriptions["s"]
    handled: list[int] = []

    def handle() -> None:
        left = receive(client.session, list(frames))
        while left:
            handled.append(subscription.backlog)
            assert client.take("ACK_RESPONSE") == []
            left = receive(client.session, left)

    client.cluster.do(handle)
    assert handled == [8, 4, 0]
    assert subscription.backlog == 0
    (answer,) = client.take("ACK_RESPONSE")
    assert (answer.request_id, answer.HasField("error")) == (7, False)


def test_each_entry_is_sent_again_once() -> None:
    client = consumer()
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids(client)))
    assert sorted(each.message_id.entryId for each in client.take("MESSAGE")) == list(range(ENTRIES))


def test_a_single_active_consumer_gets_all_again_once() -> None:
    client = consumer(Exclusive)
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids(client)))
    assert [each.message_id.entryId for each in client.take("MESSAGE")] == list(range(ENTRIES))


def acknowledged(client: Client, *message_ids: pb.MessageIdData, **fields: Any) -> int:  # noqa: ANN401 - of any type
    """Acknowledge; return how many entries were, once the answer has come."""
    body = pb.CommandAck(consumer_id=1, message_id=message_ids, request_id=7, **fields)
    client.say(commands.encode(body))
    assert [answer.request_id for answer in client.take("ACK_RESPONSE")] == [7]
    return ENTRIES - client.cluster.topic().subscriptions["s"].backlog


def test_a_cumulative_acknowledgement_of_many_ids_has_no_effect() -> None:
    client = consumer(Exclusive)
    kind = pb.CommandAck.Cumulative
    assert acknowledged(client, *ids(client), ack_type=kind) == 0
    last = ids(client)[4]
    last.ack_set.extend([0] * 30)
    assert acknowledged(client, last, ack_type=kind) == 5


def test_an_acknowledgement_of_a_transaction_is_refused_as_a_whole() -> None:
    client = consumer()
    assert acknowledged(client, *ids(client), ack_type=pb.CommandAck.Individual, txnid_most_bits=1) == 0


def test_a_part_without_ids_does_not_redeliver_all() -> None:
    client = consumer()
    body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids(client)[:1])
    unknown_fields = b"\xf8\x7f\x01" * 10
    kind = pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
    client.say(frame.frame_of(_with_body(kind, unknown_fields + body.SerializeToString())))
    assert [each.message_id.entryId for each in client.take("MESSAGE")] == [0]


def _with_body(kind: pb.BaseCommand.Type.ValueType, body: bytes) -> bytes:
    """Return a serialized command with the fields of its body in this order."""
    tag = varint.write(kind << 3 | 2)
    return pb.BaseCommand(type=kind).SerializePartialToString() + tag + varint.write(len(body)) + body


def test_ids_that_cannot_be_parsed_close_the_connection() -> None:
    client = consumer()
    body = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids(client))
    incomplete = body.SerializeToString() + b"\x1a\x02\x08\x01"
    data = frame.frame_of(_with_body(pb.BaseCommand.ACK, incomplete))
    frames = client._connection.receive_gathering(data, 0)
    with pytest.raises(RemoteProtocolError, match="lacks required fields"):
        receive(client.session, frames)
