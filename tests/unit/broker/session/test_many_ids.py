"""Commands that name many entries are handled in parts, and mean what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.session import consumers as session_consumers
from magnetar.broker.session.receiving import receive
from magnetar.sim.cluster import Client, Cluster, Exclusive, Shared
from magnetar.wire import commands
from magnetar.wire.message_id import message_id

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb

ENTRIES = 10


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_consumers, "IDS_AT_ONCE_MAX", 3)


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
    assert handled == [7, 4, 1]
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
