"""Non-persistent topics: floods, crowds of consumers and subscriptions, and consumers that do not read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, flood_consumers, frame, pump, pump_again, sends, subscribe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target
    from tests.kit.raw import RawConnection

CROWD = 10_000
SUBSCRIPTIONS = 1_000
PERMITS = 2**31 - 1


def topic(target: Target) -> str:
    """Return the topic of the attack."""
    return f"non-persistent://{target.namespace}/t"


def publishing(target: Target) -> RawConnection:
    """Open a connection with producer 1."""
    connection = connect(target)
    connection.create_producer(topic(target))
    return connection


def flow(consumer_id: int) -> bytes:
    """Return the frame of a FLOW with endless permits."""
    return frame("FLOW", consumer_id=consumer_id, messagePermits=PERMITS)


@behaviour("A flood of small SENDs to a non-persistent topic without consumers.", seconds=5.0)
def flood(target: Target) -> int:
    return pump_again(target, lambda: publishing(target), sends(500))


@behaviour("10,000 consumers of one non-persistent Shared subscription, one with permits, and a flood.", seconds=10.0)
def crowd(target: Target) -> int:
    consumers = itertools.chain((subscribe(topic(target), each) for each in range(CROWD)), [flow(CROWD - 1)])
    return flood_consumers(target, consumers, lambda: publishing(target), sends(500))


@behaviour("1,000 subscriptions of one non-persistent topic with endless permits that do not read, and a flood.")
def subscriptions(target: Target) -> int:
    consumers = itertools.chain.from_iterable(
        (subscribe(topic(target), each, f"s{each}"), flow(each)) for each in range(SUBSCRIPTIONS)
    )
    return flood_consumers(target, consumers, lambda: publishing(target), sends(500))


@behaviour("Consumers of a non-persistent topic that do not read, and SENDs of 5 MB.", seconds=6.0)
def unread_large(target: Target) -> int:
    consumers = itertools.chain.from_iterable(
        (subscribe(topic(target), each, f"s{each}"), flow(each)) for each in range(20)
    )
    return flood_consumers(target, consumers, lambda: publishing(target), sends(1, 5 << 20))


@behaviour("Key_Shared consumers that join and leave a non-persistent topic during a flood.", seconds=6.0)
def key_shared_storm(target: Target) -> int:
    def storm() -> Iterator[bytes]:
        kind = pb.CommandSubscribe.Key_Shared
        for number in itertools.count(1):
            yield subscribe(topic(target), number, subType=kind) + flow(number) + sends(20)
            if number > 200:
                yield frame("CLOSE_CONSUMER", consumer_id=number - 200, request_id=number)

    with publishing(target) as connection:
        return pump(target, connection, storm())
