"""Requests that are under way are limited, and so is the work to cancel them."""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.base.limits import Limit
from magnetar.broker.loop.slices import SLICE_ITEMS_MAX
from magnetar.broker.session import requests
from magnetar.sim.cluster import Client, Cluster, Exclusive
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

ASKS: dict[str, Callable[[Client, int], None]] = {
    "PRODUCER": lambda client, number: client.produce(producer_id=number),
    "SUBSCRIBE": lambda client, number: client.subscribe(consumer_id=number, subscription=f"s{number}"),
    "SEEK": lambda client, number: client.say(
        commands.encode(pb.CommandSeek(consumer_id=1, request_id=number, message_publish_time=1))
    ),
    "GET_LAST_MESSAGE_ID": lambda client, number: client.say(
        commands.get_last_message_id(consumer_id=1, request_id=number)
    ),
    "GET_OR_CREATE_SCHEMA": lambda client, number: client.say(
        commands.encode(
            pb.CommandGetOrCreateSchema(
                request_id=number,
                topic=str(client.topic),
                schema=pb.Schema(name="", type=pb.Schema.String, schema_data=b""),
            )
        )
    ),
}


def waiting(count: int) -> Client:
    """A client with so many requests that wait for the disk."""
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(consumer_id=1, kind=Exclusive)
    client.names()

    async def never() -> None:
        await cluster.loop.create_future()

    def ask() -> None:
        for number in range(count):
            requests.start(client.session, number, never())

    cluster.do(ask)
    return client


@pytest.mark.parametrize("name", ASKS)
def test_requests_beyond_the_limit_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PENDING_REQUESTS_MAX", 3)
    client = waiting(3)
    ASKS[name](client, 7)
    (error,) = client.take("ERROR")
    message = "3 requests of the connection are under way (maxPendingRequestsPerConnection)"
    assert (error.error, error.message) == (pb.TooManyRequests, message)
    assert client.cluster.environment.limit_hits.counts()[Limit.PENDING_REQUESTS] == 1
    client = waiting(2)
    ASKS[name](client, 7)
    assert client.take("ERROR") == []


def test_the_requests_of_a_closed_connection_are_cancelled_in_slices() -> None:
    client = waiting(3 * SLICE_ITEMS_MAX)
    tasks = list(client.session.tasks)

    def close() -> None:
        client.session.closed()
        assert sum(task.cancelling() > 0 for task in tasks) == SLICE_ITEMS_MAX

    client.cluster.do(close)
    assert all(task.cancelled() for task in tasks)


def test_the_memory_of_cancelled_requests_is_freed_in_slices() -> None:
    client = waiting(5 * SLICE_ITEMS_MAX)
    loop, tasks = client.cluster.loop, [weakref.ref(task) for task in client.session.tasks]
    alive: list[int] = []

    def look() -> None:
        alive.append(sum(task() is not None for task in tasks))
        if alive[-1]:
            loop.call_soon(look)

    loop.call_soon(look)
    client.leave()
    assert alive[0] == 5 * SLICE_ITEMS_MAX
    assert alive[-1] == 0
    assert max(before - after for before, after in pairwise(alive)) <= SLICE_ITEMS_MAX
