"""Connections of a client to one cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import LinkHeldError, RequestError, ServerError
from magnetar.base.position import Position
from magnetar.client.client import PulsarClient
from magnetar.client.options import DEFAULT_OPTIONS, ClientOptions
from magnetar.security.credentials import Credentials
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.wire.frame import Frame

    from .conftest import ScriptedBroker

TOPIC = "persistent://public/default/t"
TIMEOUT_S = 10.0


def with_client(
    broker: ScriptedBroker, use: Callable[[PulsarClient], Awaitable[None]], options: ClientOptions = DEFAULT_OPTIONS
) -> None:
    """Run ``use`` with a client of ``broker``."""

    async def run() -> None:
        client = PulsarClient(broker.url, options)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await use(client)
        finally:
            client.close()

    asyncio.run(run())


def answer_with(url: str, frame: Frame, *, redirect: bool = False) -> bytes:
    """Answer a LOOKUP."""
    request_id = frame.command.lookupTopic.request_id
    return commands.lookup_response(request_id=request_id, broker_service_url=url, redirect=redirect)


def connects(broker: ScriptedBroker) -> int:
    return sum(command.type == pb.BaseCommand.CONNECT for command in broker.received)


class Consumer:
    """Records events."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.failures: list[Exception] = []
        self.changed = asyncio.Event()

    def received(self, message: pb.CommandMessage, entry: bytes) -> None:
        del message
        self.entries.append(entry)
        self.changed.set()

    def ended(self, failure: Exception) -> None:
        self.failures.append(failure)
        self.changed.set()


def asked() -> pb.CommandSubscribe:
    return pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Exclusive)


def grant(frame: Frame) -> bytes:
    return commands.success(request_id=frame.command.subscribe.request_id)


def message(text: bytes, consumer_id: int = 7) -> bytes:
    return commands.message(consumer_id=consumer_id, position=Position(1, 2), entry=text)


def test_the_owner_of_a_topic_is_found_by_lookup(broker: ScriptedBroker, second_broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = partial(answer_with, second_broker.url)

    async def use(client: PulsarClient) -> None:
        owner = await client.owner(TOPIC)
        assert owner.url == second_broker.url
        assert await client.owner(TOPIC) is owner

    with_client(broker, use)
    assert (connects(broker), connects(second_broker)) == (1, 1)


def test_a_lookup_follows_redirects(broker: ScriptedBroker, second_broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = partial(answer_with, second_broker.url, redirect=True)
    second_broker.script[pb.BaseCommand.LOOKUP] = partial(answer_with, second_broker.url)

    async def use(client: PulsarClient) -> None:
        assert (await client.owner(TOPIC)).url == second_broker.url

    with_client(broker, use)
    assert not broker.received[-1].lookupTopic.authoritative
    assert second_broker.received[-1].lookupTopic.authoritative


def test_a_lookup_does_not_go_round_in_circles(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = partial(answer_with, broker.url, redirect=True)

    async def use(client: PulsarClient) -> None:
        with pytest.raises(RequestError, match="more than 8 redirects"):
            await client.owner(TOPIC)

    with_client(broker, use)
    assert sum(command.type == pb.BaseCommand.LOOKUP for command in broker.received) == 9


def test_a_refused_lookup_says_why(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = lambda frame: commands.lookup_failed(
        request_id=frame.command.lookupTopic.request_id, code=ServerError.TopicNotFound, message="no such topic"
    )

    async def use(client: PulsarClient) -> None:
        with pytest.raises(RequestError, match="no such topic") as caught:
            await client.owner(TOPIC)
        assert caught.value.code == ServerError.TopicNotFound

    with_client(broker, use)


def test_those_who_connect_at_the_same_time_share_a_connection(broker: ScriptedBroker) -> None:
    async def use(client: PulsarClient) -> None:
        first, second = await asyncio.gather(client.connect(), client.connect())
        assert first is second is client.service

    with_client(broker, use)
    assert connects(broker) == 1


def test_one_who_gives_up_does_not_end_the_connection_of_another(broker: ScriptedBroker) -> None:
    async def use(client: PulsarClient) -> None:
        impatient = asyncio.ensure_future(client.connect())
        patient = asyncio.ensure_future(client.connect())
        await asyncio.wait({impatient, patient}, timeout=0)
        impatient.cancel()
        assert (await patient).failure is None

    with_client(broker, use)


def test_a_lost_connection_is_opened_again(broker: ScriptedBroker) -> None:
    async def use(client: PulsarClient) -> None:
        first = await client.connect()
        broker.drop()
        await first.wait_ended()
        assert client.service is None
        second = await client.connect()
        assert second.failure is None
        assert client.service is second

    with_client(broker, use)


def test_a_connection_that_fails_is_tried_again_by_the_next_who_asks(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.CONNECT] = lambda _: None

    async def use(client: PulsarClient) -> None:
        with pytest.raises(ConnectionError):
            await client.connect()
        del broker.script[pb.BaseCommand.CONNECT]
        await client.connect()

    with_client(broker, use)


def test_a_closed_client_keeps_no_connection(broker: ScriptedBroker) -> None:
    async def use(client: PulsarClient) -> None:
        connection = await client.connect()
        client.close()
        assert connection.failure is not None
        assert client.service is None

    with_client(broker, use)


def test_entries_reach_the_consumer_that_they_are_for(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SUBSCRIBE] = grant
    broker.script[pb.BaseCommand.FLOW] = lambda _: message(b"other", 8) + message(b"entry")

    async def use(client: PulsarClient) -> None:
        connection, consumer = await client.connect(), Consumer()
        await connection.open_consumer(7, asked(), consumer)
        connection.write(commands.flow(consumer_id=7, message_permits=1))
        await consumer.changed.wait()
        assert (consumer.entries, consumer.failures) == ([b"entry"], [])

    with_client(broker, use)
    assert broker.received[1].subscribe.consumer_id == 7


def test_the_owner_of_a_consumer_hears_that_the_broker_closed_it(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SUBSCRIBE] = lambda frame: grant(frame) + commands.close_consumer(consumer_id=7)

    async def use(client: PulsarClient) -> None:
        connection, consumer = await client.connect(), Consumer()
        await connection.open_consumer(7, asked(), consumer)
        await consumer.changed.wait()
        assert [str(failure) for failure in consumer.failures] == ["the broker closed the consumer"]
        assert connection.failure is None

    with_client(broker, use)


def test_the_owner_of_a_consumer_hears_that_the_connection_is_lost(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SUBSCRIBE] = grant

    async def use(client: PulsarClient) -> None:
        connection, consumer = await client.connect(), Consumer()
        await connection.open_consumer(7, asked(), consumer)
        broker.drop()
        await consumer.changed.wait()
        assert consumer.failures == [connection.failure]

    with_client(broker, use)


def test_the_owner_of_a_dropped_consumer_hears_nothing_more(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SUBSCRIBE] = grant
    broker.script[pb.BaseCommand.CLOSE_CONSUMER] = lambda _: message(b"late")

    async def use(client: PulsarClient) -> None:
        connection, consumer = await client.connect(), Consumer()
        await connection.open_consumer(7, asked(), consumer)
        connection.drop_consumer(7)
        await connection.ask_owner(TOPIC)  # answered after the late frames
        assert (consumer.entries, consumer.failures) == ([], [])

    with_client(broker, use)
    assert broker.received[-2].close_consumer.consumer_id == 7


def test_a_consumer_that_was_not_granted_in_time_is_taken_back(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SUBSCRIBE] = lambda _: b""

    async def use(client: PulsarClient) -> None:
        connection = await client.connect()
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.2 s"):
            await connection.open_consumer(7, asked(), Consumer())
        await connection.ask_owner(TOPIC)

    with_client(broker, use, replace(DEFAULT_OPTIONS, request_timeout_s=0.2))
    assert broker.received[-2].close_consumer.consumer_id == 7


def test_a_client_that_is_paused_reads_nothing_and_does_not_take_that_for_silence(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SUBSCRIBE] = grant
    interval_s = 0.05

    async def use(client: PulsarClient) -> None:
        connection, consumer = await client.connect(), Consumer()
        await connection.open_consumer(7, asked(), consumer)
        client.pause_reading()
        broker.push(message(b"entry"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(6 * interval_s):
                await consumer.changed.wait()
        assert (consumer.entries, connection.failure) == ([], None)
        client.resume_reading()
        await consumer.changed.wait()
        assert (consumer.entries, consumer.failures) == ([b"entry"], [])

    with_client(broker, use, replace(DEFAULT_OPTIONS, keep_alive_interval_s=interval_s))


def test_a_connection_that_is_opened_while_the_client_is_paused_is_paused_too(broker: ScriptedBroker) -> None:
    async def use(client: PulsarClient) -> None:
        client.pause_reading()
        connection = await client.connect()
        request = asyncio.ensure_future(connection.ask_owner(TOPIC))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.shield(request)
        client.resume_reading()
        assert (await request).url == "pulsar://owner:6650"

    with_client(broker, use)


def test_frames_of_one_turn_are_sent_in_order(broker: ScriptedBroker) -> None:
    async def use(client: PulsarClient) -> None:
        connection = await client.connect()
        for number in range(100):
            connection.write(commands.flow(consumer_id=number, message_permits=1))
        await connection.ask_owner(TOPIC)

    with_client(broker, use)
    assert [command.flow.consumer_id for command in broker.received[1:-1]] == list(range(100))


def test_a_link_that_another_task_holds_is_told_by_its_code(broker: ScriptedBroker) -> None:
    holders: list[str | None] = [None, "host:1:a"]
    broker.script[pb.BaseCommand.SUBSCRIBE] = lambda frame: commands.link_held(
        request_id=frame.command.subscribe.request_id, message="held", pipeline=holders.pop(0)
    )

    async def use(client: PulsarClient) -> None:
        connection = await client.connect()
        for pipeline in (None, "host:1:a"):
            with pytest.raises(LinkHeldError) as caught:
                await connection.open_consumer(7, asked(), Consumer())
            assert (caught.value.code, caught.value.pipeline) == (ServerError.ConsumerBusy, pipeline)

    with_client(broker, use)


def test_credentials_are_not_printed() -> None:
    assert "secret" not in repr(replace(DEFAULT_OPTIONS, credentials=Credentials(auth_params="token:secret")))
