"""GET_LAST_MESSAGE_ID: where the topic ends, and how far the subscription has come."""

from __future__ import annotations

from typing import Any

from magnetar.base.position import Position
from magnetar.sim.cluster import Client, Cluster, Exclusive
from magnetar.wire import commands
from magnetar.wire.message_id import position_of


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
