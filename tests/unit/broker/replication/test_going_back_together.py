"""Another cluster's state moves the start of a subscription back while local consumers hold messages by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.cluster import Client, Key_Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.replication.test_moving_everywhere import seek_to_earliest
from tests.unit.broker.world import Worker, World

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = "abcdefgh"
ROUNDS = 3


def publish(world: World, prefix: str) -> None:
    """Publish some messages of each key."""
    client = world["ewr"].client()
    client.produce()
    texts = [f"{key}{prefix}{number}" for number in range(ROUNDS) for key in KEYS]
    frames = [
        commands.send(producer_id=1, sequence_id=index, entry=entry(text, partition_key=text[0]))
        for index, text in enumerate(texts)
    ]
    client.say(*frames)


def join(world: World) -> Client:
    client = world["ewr"].client()
    client.subscribe(kind=Key_Shared, initialPosition=pb.CommandSubscribe.Latest, replicate_subscription_state=True)
    return client


def sought_there(world: World) -> Client:
    """Replicate the subscription, and seek to its beginning in jfk."""
    client = join(world)
    world.progress()
    world.cut("ewr", "jfk")
    seek_to_earliest(world, "jfk")
    return client


def made_there(world: World) -> Client:
    """Create the subscription in both clusters independently, in jfk at the earliest position."""
    world.cut("ewr", "jfk")
    Worker(world, "jfk").leave()
    return join(world)


@pytest.mark.parametrize("happened", [sought_there, made_there])
def test_consumers_begin_anew_so_no_key_is_with_two_and_none_is_out_of_order(
    happened: Callable[[World], Client],
) -> None:
    world = World("ewr", "jfk")
    publish(world, "-old-")
    world.carry()
    first = happened(world)
    publish(world, "-new-")
    held = [position_of(message.message_id) for message in first.take("MESSAGE")]
    assert len(held) == ROUNDS * len(KEYS)
    second = join(world)  # half of the keys move to it, once the first consumer holds none of them
    publish(world, "-newer-")
    first.names()
    world.heal("ewr", "jfk")
    for client in (first, second):
        commands_heard = client.names()
        assert commands_heard.count("CLOSE_CONSUMER") == 1
        assert "MESSAGE" not in commands_heard[commands_heard.index("CLOSE_CONSUMER") :]
    first.ack(*held)  # late: they may have been redelivered
    for client in (first, second):
        client.leave()
    clients = [join(world) for _ in range(2)]
    world.settle()
    got = [client.messages() for client in clients]
    of_one = [{text[0] for text in texts} for texts in got]
    for texts in got:
        for key in KEYS:
            of_key = [text for text in texts if text[0] == key]
            assert of_key in ([], expected(key)), key
    assert sorted(text for texts in got for text in texts) == sorted(text for key in KEYS for text in expected(key))
    assert not of_one[0] & of_one[1]


def expected(key: str) -> list[str]:
    return [f"{key}{prefix}{number}" for prefix in ("-old-", "-new-", "-newer-") for number in range(ROUNDS)]
