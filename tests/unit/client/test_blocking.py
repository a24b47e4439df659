"""Connections on plain sockets."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import PeerSilentError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.position import Position
from magnetar.client.blocking import RECEIVE_SIZE, SEND_BUFFERS_MAX, BlockingConnection
from magnetar.client.options import DEFAULT_OPTIONS
from magnetar.wire import commands
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.wire.frame import Frame

    from .conftest import ScriptedBroker

TIMEOUT_S = 10.0
TOPIC = "persistent://public/default/t"


def pump_until(connection: BlockingConnection, count: int) -> list[Frame]:
    frames: list[Frame] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(frames) < count and time.monotonic() < deadline:
        frames += connection.pump(0.1)
    return frames


def test_handshake(broker: ScriptedBroker) -> None:
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        assert connection.peer_version == "Scripted"
        assert connection.peer_max_message_size == 1000
        assert connection.pump(0) == []
        assert connection.next_tick_at > time.monotonic()
    assert broker.received[0].connect.client_version == DEFAULT_OPTIONS.client_version
    assert connection.fileno() == -1


def test_what_comes_with_connected_is_not_lost(broker: ScriptedBroker) -> None:
    greeting = commands.connected(server_version="Scripted", protocol_version=20, max_message_size=1000)
    broker.script[pb.BaseCommand.CONNECT] = lambda _: greeting + commands.success(request_id=7)
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        (frame,) = pump_until(connection, 1)
    assert frame.command.success.request_id == 7


def test_a_refused_handshake_says_why(broker: ScriptedBroker) -> None:
    refusal = commands.error(
        request_id=commands.UNSOLICITED, code=ServerError.AuthenticationError, message="Failed to authenticate"
    )
    broker.script[pb.BaseCommand.CONNECT] = lambda _: refusal
    with pytest.raises(RequestError, match="Failed to authenticate") as caught:
        BlockingConnection.connect(broker.url, TIMEOUT_S)
    assert caught.value.code == ServerError.AuthenticationError


def test_an_authentication_in_steps_is_not_supported(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.CONNECT] = lambda _: commands.encode(pb.CommandAuthChallenge())
    with pytest.raises(RequestError, match="not supported"):
        BlockingConnection.connect(broker.url, TIMEOUT_S)


def test_a_handshake_ends_in_time(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.CONNECT] = lambda _: b""
    with pytest.raises(TimeoutError, match="handshake"):
        BlockingConnection.connect(broker.url, 0.05)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        BlockingConnection.connect(f"pulsar://127.0.0.1:{port}", TIMEOUT_S)


def test_more_sends_than_the_system_takes_at_once(broker: ScriptedBroker) -> None:
    count = 3 * SEND_BUFFERS_MAX
    entry = b"x" * RECEIVE_SIZE
    flushed = threading.Event()

    def receipt_after_the_flush(frame: Frame) -> bytes:
        flushed.wait(TIMEOUT_S)  # a broker that reads meanwhile may take everything
        return broker.receipt(frame)

    broker.script[pb.BaseCommand.SEND] = receipt_after_the_flush
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        for sequence_id in range(count):
            connection.send(commands.send(producer_id=1, sequence_id=sequence_id, entry=entry))
        connection.flush()
        assert connection.want_write
        flushed.set()
        frames = pump_until(connection, count)
        assert not connection.want_write
    assert [frame.command.send_receipt.sequence_id for frame in frames] == list(range(count))
    assert position_of(frames[-1].command.send_receipt.message_id) == Position(1, count - 1)


def test_a_request_keeps_other_frames_for_the_pump(broker: ScriptedBroker) -> None:
    message = commands.message(consumer_id=1, position=Position(1, 2), entry=b"entry")

    def answer(frame: Frame) -> bytes:
        request_id = frame.command.getTopicsOfNamespace.request_id
        return (
            message
            + commands.get_topics_of_namespace_response(request_id=request_id, topics=["t"], topics_hash="")
            + message
        )

    broker.script[pb.BaseCommand.GET_TOPICS_OF_NAMESPACE] = answer
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        assert connection.topics_of_namespace("public/default") == ["t"]
        assert [frame.body for frame in pump_until(connection, 2)] == [b"entry", b"entry"]


def test_request_ids_are_never_used_twice(broker: ScriptedBroker) -> None:
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        own = connection.next_request_id()
        connection.lookup(TOPIC)
        assert broker.received[-1].lookupTopic.request_id not in {own, connection.next_request_id()}


def test_lookup_names_the_owner(broker: ScriptedBroker) -> None:
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        assert connection.lookup(TOPIC) == "pulsar://owner:6650"


def test_lookup_follows_redirects(broker: ScriptedBroker, second_broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = lambda frame: commands.lookup_response(
        request_id=frame.command.lookupTopic.request_id, broker_service_url=second_broker.url, redirect=True
    )
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        assert connection.lookup(TOPIC) == "pulsar://owner:6650"
    assert second_broker.received[-1].lookupTopic.authoritative


def test_lookup_does_not_go_round_in_circles(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = lambda frame: commands.lookup_response(
        request_id=frame.command.lookupTopic.request_id, broker_service_url=broker.url, redirect=True
    )
    with (
        BlockingConnection.connect(broker.url, TIMEOUT_S) as connection,
        pytest.raises(RequestError, match="more than 8 redirects"),
    ):
        connection.lookup(TOPIC)


def test_a_refused_lookup_says_why(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = lambda frame: commands.lookup_failed(
        request_id=frame.command.lookupTopic.request_id, code=ServerError.TopicNotFound, message="no such topic"
    )
    with (
        BlockingConnection.connect(broker.url, TIMEOUT_S) as connection,
        pytest.raises(RequestError, match="no such topic") as caught,
    ):
        connection.lookup(TOPIC)
    assert caught.value.code == ServerError.TopicNotFound


def test_a_request_ends_in_time(broker: ScriptedBroker) -> None:
    broker.script[pb.BaseCommand.LOOKUP] = lambda _: b""
    options = replace(DEFAULT_OPTIONS, request_timeout_s=0.05)
    with (
        BlockingConnection.connect(broker.url, TIMEOUT_S, options) as connection,
        pytest.raises(TimeoutError, match=r"did not answer within 0\.05 s"),
    ):
        connection.lookup(TOPIC)


def test_a_lost_connection_shows(broker: ScriptedBroker) -> None:
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        broker.drop()
        with pytest.raises(ConnectionError, match="closed by the broker"):
            pump_until(connection, 1)


def test_a_broker_that_breaks_the_protocol_shows(broker: ScriptedBroker) -> None:
    with BlockingConnection.connect(broker.url, TIMEOUT_S) as connection:
        broker.push(commands.flow(consumer_id=1, message_permits=1))
        with pytest.raises(RemoteProtocolError, match="FLOW is not legal"):
            pump_until(connection, 1)


def test_keep_alive_asks_and_is_answered(broker: ScriptedBroker) -> None:
    options = replace(DEFAULT_OPTIONS, keep_alive_interval_s=0.2)
    with BlockingConnection.connect(broker.url, TIMEOUT_S, options) as connection:
        assert connection.pump(0.5) == []


def test_a_silent_broker_shows() -> None:
    options = replace(DEFAULT_OPTIONS, keep_alive_interval_s=0.02)
    greeting = commands.connected(server_version="Silent", protocol_version=20, max_message_size=1000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"pulsar://127.0.0.1:{listener.getsockname()[1]}"
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        with theirs, BlockingConnection(url, ours, options) as connection:
            ours.settimeout(0.0)
            theirs.sendall(greeting)
            assert len(connection.pump(TIMEOUT_S)) == 1
            with pytest.raises(PeerSilentError):
                connection.pump(TIMEOUT_S)


def test_one_loop_drives_several_connections(broker: ScriptedBroker, second_broker: ScriptedBroker) -> None:
    count = 20
    with (
        BlockingConnection.connect(broker.url, TIMEOUT_S) as first,
        BlockingConnection.connect(second_broker.url, TIMEOUT_S) as second,
        selectors.DefaultSelector() as selector,
    ):
        receipts = {first: 0, second: 0}
        for connection in receipts:
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            for sequence_id in range(count):
                connection.send(commands.send(producer_id=1, sequence_id=sequence_id, entry=b"x" * RECEIVE_SIZE))
        while min(receipts.values()) < count:
            ready = selector.select(TIMEOUT_S)
            assert ready
            for key, _ in ready:
                connection = key.fileobj  # type: ignore[assignment]  # what was registered
                receipts[connection] += len(connection.pump(0))
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.want_write else 0)
                selector.modify(connection, events)
    assert set(receipts.values()) == {count}
