"""Connections on asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import Mock, call

import pytest

from magnetar.base.errors import PeerSilentError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.limits import FRAME_SIZE_PADDING
from magnetar.base.position import EARLIEST, Position
from magnetar.client.connection import PulsarConnection
from magnetar.client.link_reports import watch_links
from magnetar.client.options import DEFAULT_OPTIONS, ClientOptions
from magnetar.client.owners import Owners
from magnetar.client.replies import lookup_answer
from magnetar.security.credentials import Credentials
from magnetar.wire import commands
from magnetar.wire.frame import PEER_FRAMES_AT_ONCE_MAX
from magnetar.wire.proto import pulsar_api_pb2 as pb

from .turns import next_turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from magnetar.wire.frame import Frame

    from .conftest import ScriptedBroker

TOPIC = "persistent://public/default/t"
TIMEOUT_S = 10.0
_REPORTS = pb.FeatureFlags(supports_link_watches=True)


CONNECTED = commands.connected(server_version="Magnetar 1", protocol_version=20, max_message_size=1000)


def with_connection(
    broker: ScriptedBroker,
    use: Callable[[PulsarConnection], Awaitable[None]],
    options: ClientOptions = DEFAULT_OPTIONS,
) -> None:
    """Run ``use`` with a connection to ``broker``."""

    async def run() -> None:
        connection = await PulsarConnection.open(broker.url, options)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await use(connection)
        finally:
            connection.close()

    asyncio.run(run())


def test_handshake(broker: ScriptedBroker) -> None:
    async def use(connection: PulsarConnection) -> None:
        assert connection.peer_version == "Scripted"
        assert connection.frame_size_max == 1000 + FRAME_SIZE_PADDING

    with_connection(broker, use)


def test_an_attempt_that_ends_with_the_connection_made_leaves_no_error_behind(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline ends its task for an error that nobody handles."""
    problems: list[dict[str, object]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        lost: asyncio.Future[None] = loop.create_future()
        connect = loop.create_connection

        async def cancelled(*arguments: object, **_: object) -> None:
            """Connect; then be cancelled as asyncio is, which closes the connection."""
            transport, _ = await connect(*arguments)  # type: ignore[call-overload]
            transport.close()
            loop.call_soon(lost.set_result, None)  # after the call of connection_lost
            raise asyncio.CancelledError

        monkeypatch.setattr(loop, "create_connection", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await PulsarConnection.open(broker.url)
        await lost

    asyncio.run(run())
    gc.collect()
    assert problems == []


def test_an_attempt_that_is_given_up_before_the_connection_is_made_does_nothing_later() -> None:
    """Otherwise the keep-alive of the ended connection would keep the event loop busy."""

    async def run() -> list[object]:
        connection, transport = PulsarConnection("pulsar://localhost:1", DEFAULT_OPTIONS), Mock(spec=asyncio.Transport)
        connection._handshake.cancel()
        connection.close()
        connection.connection_made(transport)
        assert connection._tick_timer is None
        return list(transport.mock_calls)

    assert asyncio.run(run()) == [call.abort()]


def test_links_are_reported(broker: ScriptedBroker) -> None:
    connected = commands.connected(
        server_version="Magnetar", protocol_version=20, max_message_size=1000, feature_flags=_REPORTS
    )
    first = commands.links_changed(added=["a/b"], removed=[], topics_changed=[])
    broker.script[pb.BaseCommand.CONNECT] = lambda _: connected
    broker.script[pb.BaseCommand.WATCH_LINKS] = lambda frame: (
        commands.success(request_id=frame.command.watchLinks.request_id) + first
    )

    async def use(connection: PulsarConnection) -> None:
        assert connection.peer_features.supports_link_watches
        reports: asyncio.Queue[pb.CommandLinksChanged] = asyncio.Queue()
        await watch_links(connection, "jfk", reports.put_nowait)
        assert (await reports.get()).added == ["a/b"]
        broker.push(commands.links_changed(added=[], removed=["a/b"], topics_changed=[]))
        assert (await reports.get()).removed == ["a/b"]
        assert broker.received[-1].watchLinks.target == "jfk"

    with_connection(broker, use)


def test_reports_without_a_watch_are_dropped(broker: ScriptedBroker) -> None:
    async def use(connection: PulsarConnection) -> None:
        assert not connection.peer_features.supports_link_watches
        broker.push(commands.links_changed(added=["a/b"], removed=[], topics_changed=[]))
        assert (await connection.ask_owner(TOPIC)).url == "pulsar://owner:6650"

    with_connection(broker, use)


def test_a_refused_handshake_says_why(broker: ScriptedBroker) -> None:
    refusal = commands.error(request_id=commands.UNSOLICITED, code=ServerError.NotAllowedError, message="too many")
    broker.script[pb.BaseCommand.CONNECT] = lambda _: refusal
    with pytest.raises(RequestError, match="too many"):
        asyncio.run(PulsarConnection.open(broker.url))


CHALLENGE = commands.encode(pb.CommandAuthChallenge(challenge=pb.AuthData(auth_method_name="token")))


def with_token(source: str) -> ClientOptions:
    return replace(DEFAULT_OPTIONS, credentials=Credentials(auth_params=source))


def test_a_challenge_without_credentials_ends_the_connection(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.CONNECT] = lambda _: CHALLENGE
    with pytest.raises(RequestError, match="requires authentication, and no credentials are given") as caught:
        asyncio.run(PulsarConnection.open(broker.url))
    assert caught.value.code == ServerError.AuthenticationError


def test_credentials_are_in_the_handshake(broker: ScriptedBroker) -> None:
    async def nothing(_: PulsarConnection) -> None:
        pass

    with_connection(broker, nothing)
    with_connection(broker, nothing, with_token("token:abc"))
    anonymous, known = (command.connect for command in broker.received)
    assert not anonymous.HasField("auth_method_name")
    assert not anonymous.HasField("auth_data")
    assert (known.auth_method_name, known.auth_data) == ("token", b"abc")
    assert [each.feature_flags.supports_auth_refresh for each in (anonymous, known)] == [False, True]


def test_a_renewed_token_answers_a_challenge(broker: ScriptedBroker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    answered = threading.Event()

    def note(_: Frame) -> bytes:
        answered.set()
        return b""

    broker.script[pb.BaseCommand.AUTH_RESPONSE] = note

    async def use(connection: PulsarConnection) -> None:
        token.write_text("new\n")
        broker.push(CHALLENGE)
        assert await asyncio.to_thread(answered.wait, TIMEOUT_S)
        assert connection.failure is None

    with_connection(broker, use, with_token(token.as_uri()))
    connect, response = broker.received
    assert connect.connect.auth_data == b"old"
    sent = response.authResponse.response
    assert (sent.auth_method_name, sent.auth_data) == ("token", b"new")


def test_a_challenge_whose_token_is_gone_ends_the_connection(broker: ScriptedBroker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def use(connection: PulsarConnection) -> None:
        token.unlink()
        broker.push(CHALLENGE)
        await connection.wait_ended()
        assert str(connection.failure) == f"cannot read the token in {token}: No such file or directory"

    with_connection(broker, use, with_token(token.as_uri()))


def test_a_lookup_answers_an_encrypted_connection_with_an_encrypted_one() -> None:
    both, plain = (
        pb.BaseCommand(
            type=pb.BaseCommand.LOOKUP_RESPONSE,
            lookupTopicResponse=pb.CommandLookupTopicResponse(
                request_id=1,
                response=pb.CommandLookupTopicResponse.Connect,
                brokerServiceUrl="pulsar://b:1",
                brokerServiceUrlTls=encrypted,
            ),
        )
        for encrypted in ("pulsar+ssl://b:2", "")
    )
    assert lookup_answer(both, is_encrypted=True).url == "pulsar+ssl://b:2"
    assert lookup_answer(both, is_encrypted=False).url == "pulsar://b:1"
    with pytest.raises(RequestError, match=r"pulsar://b:1 has no URL for encrypted connections"):
        lookup_answer(plain, is_encrypted=True)


def test_a_handshake_ends_in_time(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.CONNECT] = lambda _: b""
    with pytest.raises(TimeoutError):
        asyncio.run(PulsarConnection.open(broker.url, replace(DEFAULT_OPTIONS, connect_timeout_s=0.05)))


def test_sends_are_answered_in_order(broker: ScriptedBroker) -> None:
    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "magnetar.progress.ewr", {"key": "value"})
        assert (producer.name, producer.last_origin) == ("magnetar.progress.ewr", Position(3, 4))
        receipts = [producer.send(b"entry", marker=True), producer.send(b"entry", num_messages=3)]
        assert producer.unacknowledged == 2
        assert await asyncio.gather(*receipts) == [Position(1, 0), Position(1, 1)]
        assert producer.unacknowledged == 0
        await producer.close()
        assert producer.failure is not None
        with pytest.raises(ConnectionError, match="producer was closed"):
            producer.send(b"entry")
        await producer.close()

    with_connection(broker, use)
    created, first, second, closed = broker.received[1:]
    assert created.producer.metadata == [pb.KeyValue(key="key", value="value")]
    assert (first.send.sequence_id, first.send.marker, first.send.num_messages) == (42, True, 1)
    assert (second.send.sequence_id, second.send.marker, second.send.num_messages) == (43, False, 3)
    assert closed.close_producer.producer_id == created.producer.producer_id


def test_a_dropped_duplicate_has_no_position(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SEND] = lambda frame: commands.send_receipt(
        producer_id=frame.command.send.producer_id, sequence_id=frame.command.send.sequence_id, position=EARLIEST
    )

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        assert await producer.send(b"entry") == EARLIEST

    with_connection(broker, use)


def test_a_refused_send_fails_alone(broker: ScriptedBroker) -> None:
    def refuse_the_first(frame: Frame) -> bytes:
        if frame.command.send.sequence_id > 42:
            return broker.receipt(frame)
        return commands.send_error(
            producer_id=frame.command.send.producer_id,
            sequence_id=frame.command.send.sequence_id,
            code=ServerError.PersistenceError,
            message="gap",
        )

    broker.script[pb.BaseCommand.SEND] = refuse_the_first

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        refused, granted = producer.send(b"first"), producer.send(b"second")
        with pytest.raises(RequestError, match="gap") as caught:
            await refused
        assert caught.value.code == ServerError.PersistenceError
        assert await granted == Position(1, 0)

    with_connection(broker, use)


def test_a_receipt_out_of_order_ends_the_connection(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SEND] = lambda frame: commands.send_receipt(
        producer_id=frame.command.send.producer_id, sequence_id=99, position=EARLIEST
    )

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        with pytest.raises(RemoteProtocolError, match="sequence id 99"):
            await producer.send(b"entry")
        await connection.wait_ended()
        assert isinstance(connection.failure, RemoteProtocolError)

    with_connection(broker, use)


def test_a_producer_that_the_broker_closes_has_ended(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SEND] = lambda frame: commands.close_producer(
        producer_id=frame.command.send.producer_id
    )

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        receipt = producer.send(b"entry")
        await producer.wait_ended()
        with pytest.raises(RequestError, match="the broker closed the producer"):
            await receipt
        with pytest.raises(RequestError, match="the broker closed the producer"):
            producer.send(b"entry")
        assert connection.failure is None

    with_connection(broker, use)


def test_a_producer_may_be_closed_right_behind_its_admission(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.PRODUCER] = lambda frame: (
        commands.producer_success(request_id=frame.command.producer.request_id, producer_name="p")
        + commands.close_producer(producer_id=frame.command.producer.producer_id)
    )

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        await producer.wait_ended()

    with_connection(broker, use)


def test_a_refused_producer_says_why(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.PRODUCER] = lambda frame: commands.error(
        request_id=frame.command.producer.request_id, code=ServerError.ProducerBusy, message="busy"
    )

    async def use(connection: PulsarConnection) -> None:
        with pytest.raises(RequestError, match="busy") as caught:
            await connection.create_producer(TOPIC, "p")
        assert caught.value.code == ServerError.ProducerBusy

    with_connection(broker, use)


def test_a_producer_that_waits_for_access_is_admitted_later(broker: ScriptedBroker) -> None:
    def wait_then_admit(frame: Frame) -> bytes:
        request_id = frame.command.producer.request_id
        waiting = commands.producer_waiting(request_id=request_id, producer_name="p")
        return waiting + commands.producer_success(request_id=request_id, producer_name="p", last_sequence_id=5)

    broker.script[pb.BaseCommand.PRODUCER] = wait_then_admit

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        await producer.send(b"entry")

    with_connection(broker, use)
    assert broker.received[-1].send.sequence_id == 6


def test_a_producer_not_admitted_in_time_is_taken_back(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.PRODUCER] = lambda _: b""

    async def use(connection: PulsarConnection) -> None:
        with pytest.raises(TimeoutError):
            await connection.create_producer(TOPIC, "p")
        assert (await connection.ask_owner(TOPIC)).url == "pulsar://owner:6650"

    with_connection(broker, use, replace(DEFAULT_OPTIONS, request_timeout_s=0.5))
    assert [command.type for command in broker.received[2:]] == [
        pb.BaseCommand.CLOSE_PRODUCER,
        pb.BaseCommand.LOOKUP,
    ]


def test_a_lost_connection_fails_everything_that_waits(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.SEND] = lambda _: None

    async def use(connection: PulsarConnection) -> None:
        producer = await connection.create_producer(TOPIC, "p")
        with pytest.raises(ConnectionError, match="was lost"):
            await producer.send(b"entry")
        await connection.wait_ended()
        with pytest.raises(ConnectionError, match="was lost"):
            await connection.ask_owner(TOPIC)
        with pytest.raises(ConnectionError, match="was lost"):
            producer.send(b"entry")

    with_connection(broker, use)


def test_closing_ends_what_waits(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = lambda _: b""

    async def use(connection: PulsarConnection) -> None:
        waiting = asyncio.ensure_future(connection.ask_owner(TOPIC))
        asyncio.get_running_loop().call_soon(connection.close)
        with pytest.raises(ConnectionError, match="was closed"):
            await waiting

    with_connection(broker, use)


def over_mock() -> tuple[PulsarConnection, Mock]:
    """Return a connection after its handshake, and its transport."""
    connection, transport = PulsarConnection("pulsar://broker:1", DEFAULT_OPTIONS), Mock()
    transport.is_closing.return_value = False
    connection.connection_made(transport)
    connection.data_received(CONNECTED)
    return connection, transport


def test_many_frames_of_one_read_are_processed_in_several_turns_and_in_order() -> None:
    async def run() -> None:
        connection, transport = over_mock()
        taken: list[int] = []

        class Counting(Owners):
            def take(self, frame: Frame) -> bool:
                taken.append(frame.command.success.request_id)
                return True

        connection.owners = Counting()
        receive, parts = connection.data_received, list[int]()

        def counting(data: bytes) -> None:
            before = len(taken)
            receive(data)
            parts.append(len(taken) - before)

        connection.data_received = counting  # type: ignore[method-assign]
        frames = b"".join(commands.success(request_id=each) for each in range(3 * PEER_FRAMES_AT_ONCE_MAX))
        connection.data_received(frames[:-5])
        connection.pause_reading()
        connection.resume_reading()
        assert transport.method_calls[-1] == call.pause_reading(), "the rest must be processed first"
        while len(taken) < 3 * PEER_FRAMES_AT_ONCE_MAX - 1:
            await next_turn()
        assert transport.method_calls[-1] == call.resume_reading()
        connection.data_received(frames[-5:])
        assert parts == [PEER_FRAMES_AT_ONCE_MAX, PEER_FRAMES_AT_ONCE_MAX, PEER_FRAMES_AT_ONCE_MAX - 1, 1]
        assert taken == list(range(3 * PEER_FRAMES_AT_ONCE_MAX))
        connection.close()

    asyncio.run(run())


def test_frames_that_wait_for_the_next_turn_are_dropped_with_the_connection() -> None:
    async def run() -> None:
        connection, _ = over_mock()
        connection.data_received(commands.ping() * 2 * PEER_FRAMES_AT_ONCE_MAX)
        connection.close()
        await next_turn()
        assert str(connection.failure) == "connection to pulsar://broker:1 was closed"

    asyncio.run(run())


def test_a_broker_that_breaks_the_protocol_ends_the_connection(broker: ScriptedBroker) -> None:
    async def use(connection: PulsarConnection) -> None:
        broker.push(commands.flow(consumer_id=1, message_permits=1))
        await connection.wait_ended()
        assert isinstance(connection.failure, RemoteProtocolError)

    with_connection(broker, use)


def test_keep_alive_asks_and_is_answered(broker: ScriptedBroker) -> None:
    async def use(connection: PulsarConnection) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await connection.wait_ended()

    with_connection(broker, use, replace(DEFAULT_OPTIONS, keep_alive_interval_s=0.2))


def test_a_silent_broker_ends_the_connection() -> None:
    greeting = commands.connected(server_version="Silent", protocol_version=20, max_message_size=1000)

    async def run() -> None:
        writers: list[asyncio.StreamWriter] = []

        def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            writer.write(greeting)

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options = replace(DEFAULT_OPTIONS, keep_alive_interval_s=0.05)
        connection = await PulsarConnection.open(f"pulsar://127.0.0.1:{port}", options)
        async with asyncio.timeout(TIMEOUT_S):
            await connection.wait_ended()
        assert isinstance(connection.failure, PeerSilentError)
        writers[0].close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())
