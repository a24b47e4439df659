"""Another cluster's state moves the start of a subscription back while local consumers hold messages by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.cluster import Client, Key_Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.network import ClusterNetwork, Worker
from tests.unit.broker.replication.test_moving_everywhere import seek_to_earliest

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = "abcdefgh"
ROUNDS = 3


def publish(network: ClusterNetwork, prefix: str) -> None:
    """Publish some messages of each key."""
    client = network["ewr"].client()
    client.produce()
    texts = [f"{key}{prefix}{number}" for number in range(ROUNDS) for key in KEYS]
    frames = [
        commands.send(producer_id=1, sequence_id=index, entry=entry(text, partition_key=text[0]))
        for index, text in enumerate(texts)
    ]
    client.say(*frames)


def join(network: ClusterNetwork) -> Client:
    client = network["ewr"].client()
    client.subscribe(kind=Key_Shared, initialPosition=pb.CommandSubscribe.Latest, replicate_subscription_state=True)
    return client


def sought_there(network: ClusterNetwork) -> Client:
    """Replicate the subscription, and seek to its beginning in jfk."""
    client = join(network)
    network.progress()
    network.cut("ewr", "jfk")
    seek_to_earliest(network, "jfk")
    return client


def made_there(network: ClusterNetwork) -> Client:
    """Create the subscription in both clusters independently, in jfk at the earliest position."""
    network.cut("ewr", "jfk")
    Worker(network, "jfk").leave()
    return join(network)


@pytest.mark.parametrize("happened", [sought_there, made_there])
def test_consumers_begin_anew_so_no_key_is_with_two_and_none_is_out_of_order(
    happened: Callable[[ClusterNetwork], Client],
) -> None:
    network = ClusterNetwork("ewr", "jfk")
    publish(network, "-old-")
    network.carry()
    first = happened(network)
    publish(network, "-new-")
    held = [position_of(message.message_id) for message in first.take("MESSAGE")]
    assert len(held) == ROUNDS * len(KEYS)
    second = join(network)  # half of the keys move to it, once the first consumer holds none of them
    publish(network, "-newer-")
    first.names()
    network.heal("ewr", "jfk")
    for client in (first, second):
        commands_heard = client.names()
        assert commands_heard.count("CLOSE_CONSUMER") == 1
        assert "MESSAGE" not in commands_heard[commands_heard.index("CLOSE_CONSUMER") :]
    first.ack(*held)  # late: they may have been redelivered
    for client in (first, second):
        client.leave()
    clients = [join(network) for _ in range(2)]
    network.settle()
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
