"""Magnetar's own client with a real broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import EARLIEST
from magnetar.client.client import PulsarClient
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.raw import entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from magnetar.base.position import Position
    from magnetar.client.consumer import Consumer, Received
    from magnetar.client.producer import Producer

TIMEOUT_S = 30.0
PATIENCE_S = 0.3
"""Seconds to wait for frames that a broker must not send."""


def with_client(broker: Broker, use: Callable[[PulsarClient], Awaitable[None]]) -> None:
    async def run() -> None:
        client = PulsarClient(broker.service_url)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await use(client)
        finally:
            client.close()

    asyncio.run(run())


async def publish(producer: Producer, count: int, size: int = 1) -> list[Position]:
    return await asyncio.gather(*(producer.send(entry(b"%d" % n * size, n)) for n in range(count)))


async def take(consumer: Consumer, count: int) -> list[Received]:
    return [await consumer.receive() for _ in range(count)]


async def nothing_comes(consumer: Consumer, waiting: int = 0) -> None:
    await asyncio.sleep(PATIENCE_S)
    assert (consumer.waiting, consumer.failure) == (waiting, None)


def test_published_messages_are_received_in_order_until_acknowledged(broker: Broker, topic: str) -> None:
    async def use(client: PulsarClient) -> None:
        consumer = await client.subscribe(topic, "s")
        positions = await publish(await client.create_producer(topic, "p"), 5)
        received = await take(consumer, 5)
        assert [each.position for each in received] == positions
        assert [bytes(payload_of(each.entry)) for each in received] == [b"0", b"1", b"2", b"3", b"4"]
        consumer.acknowledge(positions[2], cumulative=True)
        consumer.acknowledge(positions[4])
        consumer.close()
        with pytest.raises(ConnectionError, match="was closed"):
            await consumer.receive()
        again = await client.subscribe(topic, "s")
        assert [each.position for each in await take(again, 1)] == [positions[3]]
        await nothing_comes(again)

    with_client(broker, use)


def test_a_reader_reads_what_is_behind_its_start(broker: Broker, topic: str) -> None:
    async def use(client: PulsarClient) -> None:
        producer = await client.create_producer(topic, "p")
        empty = await client.read(topic, EARLIEST)
        assert await empty.last_position() == EARLIEST
        positions = await publish(producer, 4)
        reader = await client.read(topic, EARLIEST)
        assert await reader.last_position() == positions[-1]
        assert [each.position for each in await take(reader, 4)] == positions
        later = await client.read(topic, positions[1])
        assert [each.position for each in await take(later, 2)] == positions[2:]

    with_client(broker, use)


def test_a_broker_sends_no_more_ahead_than_it_is_permitted(broker: Broker, topic: str) -> None:
    async def use(client: PulsarClient) -> None:
        positions = await publish(await client.create_producer(topic, "p"), 40)
        reader = await client.read(topic, EARLIEST, read_ahead=10)
        await nothing_comes(reader, waiting=10)
        await take(reader, 4)
        await nothing_comes(reader, waiting=6)
        rest = await take(reader, 36)
        assert rest[-1].position == positions[-1]

    with_client(broker, use)


def test_a_large_backlog_is_read_through_pauses(broker: Broker, topic: str) -> None:
    async def use(client: PulsarClient) -> None:
        positions = await publish(await client.create_producer(topic, "p"), 60, size=100_000)
        reader = await client.read(topic, EARLIEST)
        received: list[Position] = []
        while len(received) < len(positions):
            client.pause_reading()
            received += [each.position for each in await take(reader, reader.waiting)]
            client.resume_reading()
            if len(received) < len(positions):
                received.append((await reader.receive()).position)
        assert received == positions

    with_client(broker, use)


def test_an_exclusive_subscription_is_granted_once(broker: Broker, topic: str) -> None:
    async def use(client: PulsarClient) -> None:
        await client.subscribe(topic, "s")
        with pytest.raises(RequestError) as caught:
            await client.subscribe(topic, "s")
        assert caught.value.code == ServerError.ConsumerBusy
        await client.subscribe(topic, "shared", kind=pb.CommandSubscribe.Shared)
        await client.subscribe(topic, "shared", kind=pb.CommandSubscribe.Shared)

    with_client(broker, use)


def test_a_consumer_of_a_deleted_topic_ends(broker: Broker, topic: str) -> None:
    async def use(client: PulsarClient) -> None:
        consumer = await client.subscribe(topic, "s")
        await asyncio.to_thread(broker.rest.delete, f"persistent/{topic.removeprefix('persistent://')}?force=true")
        with pytest.raises(RequestError, match="closed the consumer"):
            await consumer.receive()

    with_client(broker, use)


def test_after_a_crash_of_the_broker_the_client_finds_it_again(tmp_path: Path) -> None:
    topic = "persistent://public/default/t"

    async def use(client: PulsarClient) -> None:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, "p")
        positions = await publish(producer, 3)
        await take(consumer, 3)
        broker.kill()
        with pytest.raises(ConnectionError, match="was lost"):
            await consumer.receive()
        await producer.wait_ended()
        with pytest.raises(OSError, match="Connect call failed"):
            await client.subscribe(topic, "s")
        await asyncio.to_thread(broker.start)
        again = await client.subscribe(topic, "s")
        more = await publish(await client.create_producer(topic, "p"), 1)
        assert [each.position for each in await take(again, 4)] == [*positions, *more]

    with Broker(tmp_path) as broker:
        with_client(broker, use)
