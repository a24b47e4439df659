"""GET_LAST_MESSAGE_ID: the end of the topic, and the position of the subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import Position
from magnetar.sim.cluster import Client, Cluster, Exclusive
from magnetar.wire import commands
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    import pytest


def answer(client: Client) -> Any:  # noqa: ANN401 - a command of any type
    client.say(commands.get_last_message_id(consumer_id=1, request_id=client.request_id()))
    (response,) = client.take("GET_LAST_MESSAGE_ID_RESPONSE")
    return response


def test_a_cursor_as_old_as_the_topic_is_behind_its_first_entry() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    assert not answer(client).HasField("consumer_mark_delete_position")
    client.produce()
    client.send("a")
    ((_, first),) = client.receipts()
    response = answer(client)
    assert position_of(response.last_message_id) == first
    assert position_of(response.consumer_mark_delete_position) == Position(first.ledger_id, -1)


def test_the_mark_delete_position_is_told_as_it_is() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    client.produce()
    client.send("a", "b")
    first, last = (position for _, position in client.receipts())
    client.ack(first)
    response = answer(client)
    assert position_of(response.last_message_id) == last
    assert position_of(response.consumer_mark_delete_position) == first


def test_the_entry_is_read_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    client.produce()
    client.send("a")
    cluster.store.cached = False
    log, reads = cluster.topic().log, list[Position]()
    read_entry = log.read_entry

    async def counted(position: Position) -> bytes:
        reads.append(position)
        return await read_entry(position)

    monkeypatch.setattr(log, "read_entry", counted)
    ask = b"".join(commands.get_last_message_id(consumer_id=1, request_id=number) for number in range(100, 110))
    client.say(ask)
    assert len(client.take("GET_LAST_MESSAGE_ID_RESPONSE")) == 10
    assert len(reads) == 1
    client.send("b")
    cluster.store.cached = False
    client.say(ask)
    last = [position_of(each.last_message_id) for each in client.take("GET_LAST_MESSAGE_ID_RESPONSE")]
    assert set(last) == {cluster.topic().ledger.last_confirmed_entry}
    assert len(reads) == 2
