"""Consumers: crowds that join and leave, permits that overflow, and consumers that take and give nothing."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.attacks.publishing import EXTREMES, metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import (
    answer_pings,
    connect,
    consuming,
    fill,
    flood_consumers,
    frame,
    hold_many,
    open_many,
    publishing,
    pump,
    pump_again,
    repeatedly,
    send_frame,
    subscribe,
)
from tests.kit.raw import entry
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target
    from tests.kit.raw import RawConnection

CROWD = 3000
"""Consumers of one subscription, and subscriptions of one topic."""

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = (
    pb.CommandSubscribe.Exclusive,
    pb.CommandSubscribe.Shared,
    pb.CommandSubscribe.Failover,
    pb.CommandSubscribe.Key_Shared,
)
HASHES = 1 << 16


def _leave(consumer_id: int) -> bytes:
    return frame("CLOSE_CONSUMER", consumer_id=consumer_id, request_id=consumer_id)


@behaviour("FLOW with 2^32-1 permits again and again, while messages come.")
def permits_overflow(target: Target) -> int:
    with publishing(target) as producer, consuming(target) as connection:
        producer.socket.sendall(b"".join(send_frame(entry(b"x", each), each) for each in range(1000)))
        return pump(target, connection, itertools.cycle([frame("FLOW", consumer_id=1, messagePermits=2**32 - 1) * 200]))


@behaviour("FLOW with 0 permits.")
def no_permits(target: Target) -> int:
    return pump_again(target, lambda: consuming(target), frame("FLOW", consumer_id=1, messagePermits=0))


@behaviour("Single permits by the thousand, with a backlog.", seconds=5.0)
def single_permits(target: Target) -> int:
    with consuming(target):
        fill(target, 5000)
    return pump_again(target, lambda: consuming(target), frame("FLOW", consumer_id=1, messagePermits=1) * 2000)


@behaviour("Redelivery of unknown and extreme positions, 10,000 in one command.")
def redelivery_of_unknown(target: Target) -> int:
    with consuming(target):
        fill(target, 100)
    ids = [pb.MessageIdData(ledgerId=low, entryId=high) for low, high in itertools.product(EXTREMES, EXTREMES)]
    ids += [pb.MessageIdData(ledgerId=1, entryId=each) for each in range(10_000)]
    data = frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=ids)
    return pump_again(target, lambda: consuming(target), data)


@behaviour("Redelivery of 20,000 held messages, and of 250,000 unknown ones, with one command.", seconds=10.0)
def redelivering_many(target: Target) -> int:
    with consuming(target):
        held = fill(target, 20_000, 10)
    unknown = [pb.MessageIdData(ledgerId=1, entryId=1)] * 250_000
    more = frame("FLOW", consumer_id=1, messagePermits=len(held))
    frames = [
        more + frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=ids) for ids in (held, unknown)
    ]
    with consuming(target) as connection:
        connection.flow(len(held))
        for _ in held:
            connection.expect("MESSAGE")
        return pump(target, connection, itertools.cycle(frames))


@behaviour("Redelivery of all messages, again and again, with endless permits.", seconds=6.0)
def redelivery_storm(target: Target) -> int:
    with consuming(target):
        fill(target, 5000)

    def open_one() -> RawConnection:
        connection = consuming(target)
        connection.flow(1_000_000)
        return connection

    return pump_again(target, open_one, frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1) * 10)


@behaviour("SEEK to the first message, to extreme positions and to extreme times, as fast as it goes.", seconds=6.0)
def seek_storm(target: Target) -> int:
    fill(target, 5000)
    frames = [frame("SEEK", consumer_id=1, request_id=1, message_publish_time=each) for each in EXTREMES]
    frames += [
        frame("SEEK", consumer_id=1, request_id=1, message_id=pb.MessageIdData(ledgerId=low, entryId=high))
        for low, high in itertools.product(EXTREMES, EXTREMES)
    ]
    return pump_again(target, lambda: consuming(target), b"".join(frames))


@behaviour("SUBSCRIBE and UNSUBSCRIBE in turn, as fast as it goes.", seconds=5.0)
def subscribe_storm(target: Target) -> int:
    fill(target, 100)
    pair = subscribe(target.topic(), 1) + frame("UNSUBSCRIBE", consumer_id=1, request_id=2)
    return pump_again(target, lambda: connect(target), pair * 50)


@behaviour("3,000 consumers join one Failover subscription, leave one by one, and close at once.", seconds=10.0)
def failover_crowd(target: Target) -> int:
    return _crowd(target, FAILOVER)


@behaviour("3,000 consumers join one Key_Shared subscription, leave one by one, and close at once.", seconds=10.0)
def key_shared_crowd(target: Target) -> int:
    return _crowd(target, KEY_SHARED)


@behaviour("3,000 consumers join one Shared subscription, leave one by one, and close at once.", seconds=10.0)
def shared_crowd(target: Target) -> int:
    return _crowd(target, SHARED)


def _crowd(target: Target, kind: pb.CommandSubscribe.SubType.ValueType) -> int:
    """Let one connection bring a crowd and close it in good order, and another bring a crowd and vanish."""
    with connect(target) as staying, connect(target) as vanishing:
        joined = pump(target, vanishing, (subscribe(target.topic(), each, subType=kind) for each in range(CROWD)))
        vanishing.close()
        frames: Iterator[bytes] = itertools.chain(
            (subscribe(target.topic(), each, subType=kind) for each in range(CROWD)),
            (_leave(each) for each in range(CROWD)),
        )
        return joined + pump(target, staying, frames)


@behaviour("300 connections join one Failover subscription with messages, and leave.", seconds=8.0)
def failover_connections(target: Target) -> int:
    with consuming(target, subType=FAILOVER):
        fill(target, 1000)

    def open_one() -> RawConnection:
        connection = consuming(target, subType=FAILOVER)
        connection.flow(1000)
        return connection

    opened = open_many(target, 300, open_one)
    answer_pings(target, opened)
    for connection in opened:
        connection.close()
    return len(opened)


@behaviour("STICKY ranges that overlap, are reversed, are out of bounds, and are 60,000 in number.")
def sticky_ranges(target: Target) -> int:
    shapes: tuple[list[tuple[int, int]], ...] = (
        [(0, HASHES - 1)],
        [(10, 5)],
        [(-1, 2**31 - 1)],
        [(-(2**31), -1)],
        [],
        [(0, 10), (5, 20)],
        [(each, each) for each in range(0, HASHES - 1, 1)],
        [(0, HASHES - 1)] * 60_000,
    )

    def act(count: int) -> None:
        ranges = [pb.IntRange(start=start, end=end) for start, end in shapes[count % len(shapes)]]
        meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=ranges)
        with connect(target) as connection:
            for each in (1, 2):
                connection.socket.sendall(subscribe(target.topic(), each, subType=KEY_SHARED, keySharedMeta=meta))
            connection.is_closed_by_peer(0.1)

    return repeatedly(target, act)


@behaviour("3,000 subscriptions of one topic, each with a consumer, and messages for all.", seconds=12.0)
def three_thousand_subscriptions(target: Target) -> int:
    frames = itertools.chain(
        (subscribe(target.topic(), each, f"s{each}") for each in range(CROWD)),
        (frame("FLOW", consumer_id=each, messagePermits=10) for each in range(CROWD)),
    )
    with connect(target) as connection:
        sent = pump(target, connection, frames)
        with publishing(target) as producer:
            pump(target, producer, (send_frame(entry(bytes(100), each), each) for each in range(20)))
        answer_pings(target, [connection])
        return sent


@behaviour("A topic with 3,000 subscriptions is unloaded and used again, without end.", seconds=20.0)
def subscriptions_loaded_again(target: Target) -> int:
    with connect(target) as connection:
        for each in range(CROWD):
            connection.socket.sendall(subscribe(target.topic(), each, f"s{each}"))
            connection.expect("SUCCESS")
    path = f"persistent/{target.namespace}/t"

    def act(count: int) -> None:
        rest.request("PUT", f"{path}/unload")
        with connect(target) as connection:
            connection.socket.sendall(subscribe(target.topic(), 1, f"s{count}"))
            rest.request("GET", f"{path}/subscriptions")
            connection.expect("SUCCESS")

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("200 connections with endless permits that do not read, and a backlog of 40 MB.", seconds=8.0)
def consumers_that_do_not_read(target: Target) -> int:
    with consuming(target):
        fill(target, 40, 1 << 20)

    def open_one() -> RawConnection:
        connection = consuming(target, subscription=f"s{next(numbers) % 20}")
        connection.flow(1_000_000)
        return connection

    numbers = itertools.count()
    return hold_many(target, 200, open_one)


@behaviour("50 consumers that take messages and never acknowledge, while messages come.", seconds=6.0)
def never_acknowledging(target: Target) -> int:
    def open_one() -> RawConnection:
        connection = consuming(target)
        connection.flow(1_000_000)
        return connection

    opened = open_many(target, 50, open_one)
    with contextlib.suppress(OSError):
        fill(target, 20_000)
    answer_pings(target, opened)
    for connection in opened:
        connection.close()
    return len(opened)


@behaviour("Exclusive subscriptions that are busy are asked for by connection after connection.")
def busy_subscriptions(target: Target) -> int:
    with consuming(target, subType=EXCLUSIVE):

        def act(_count: int) -> None:
            with connect(target) as other:
                other.socket.sendall(subscribe(target.topic(), 1, subType=EXCLUSIVE) * 10)
                other.is_closed_by_peer(0.02)

        return repeatedly(target, act)


@behaviour("GET_LAST_MESSAGE_ID and CONSUMER_STATS as fast as it goes.")
def questions(target: Target) -> int:
    fill(target, 1000)
    pair = frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=1) + frame(
        "CONSUMER_STATS", consumer_id=1, request_id=2
    )
    return pump_again(target, lambda: consuming(target), pair * 500)


@behaviour("Non-durable readers by the thousand, each from another position.", seconds=6.0)
def readers(target: Target) -> int:
    fill(target, 5000)
    frames = (
        subscribe(
            target.topic(),
            each,
            f"reader-{each}",
            durable=False,
            start_message_id=pb.MessageIdData(ledgerId=1, entryId=each),
        )
        + frame("FLOW", consumer_id=each, messagePermits=1000)
        for each in range(CROWD)
    )
    with connect(target) as connection:
        return pump(target, connection, frames)


@behaviour("10,000 consumers of one Shared subscription, one with permits, and a flood.", seconds=10.0)
def crowd_without_permits(target: Target) -> int:
    return _flooded_crowd(target, SHARED, 10_000)


@behaviour("3,000 consumers of one Key_Shared subscription, one with permits, and a flood of keys.", seconds=12.0)
def key_shared_crowd_without_permits(target: Target) -> int:
    return _flooded_crowd(target, KEY_SHARED, CROWD)


def _flooded_crowd(target: Target, kind: pb.CommandSubscribe.SubType.ValueType, count: int) -> int:
    """Let a crowd join, of which one takes messages, and publish messages with different keys without end."""
    consumers = itertools.chain(
        (subscribe(target.topic(), each, subType=kind) for each in range(count)),
        [frame("FLOW", consumer_id=count - 1, messagePermits=2**31 - 1)],
    )
    messages = (build_entry(metadata(sequence_id=each, partition_key=f"{each}"), bytes(100)) for each in range(500))
    data = b"".join(send_frame(message, each) for each, message in enumerate(messages))
    return flood_consumers(target, consumers, lambda: publishing(target), data)
