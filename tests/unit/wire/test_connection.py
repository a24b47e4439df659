"""The states of a connection, tested with pairs of machines and with tables."""

from __future__ import annotations

import os
import struct
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import LocalProtocolError, PeerSilentError, RemoteProtocolError, ServerError
from magnetar.base.limits import COMMAND_SIZE_MAX, HANDSHAKE_FRAME_SIZE_MAX, Limit
from magnetar.base.position import Position
from magnetar.wire import commands
from magnetar.wire.connection import _ANSWERS, _REQUESTS, PEER_VERSION_LENGTH_MAX, Connection, Role, State
from magnetar.wire.frame import FRAME_SIZE_MAX, Frame, FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.processes import resident_bytes

CONNECT = commands.connect(
    client_version="test 1", protocol_version=19, feature_flags=pb.FeatureFlags(supports_auth_refresh=True)
)
CONNECTED = commands.connected(server_version="Magnetar test", protocol_version=19, max_message_size=1000)
REQUEST = commands.flow(consumer_id=1, message_permits=1)
ANSWER = commands.success(request_id=1)


def connection(role: Role) -> Connection:
    return Connection(role, keep_alive_interval_s=30, now=100.0)


def new_broker() -> Connection:
    return connection(Role.BROKER)


def connected_broker() -> Connection:
    broker = connection(Role.BROKER)
    broker.receive(CONNECT, 100.0)
    broker.connected()
    return broker


def connected_client() -> Connection:
    client = connection(Role.CLIENT)
    client.receive(CONNECTED, 100.0)
    return client


def types(frames: list[Frame]) -> list[str]:
    return [pb.BaseCommand.Type.Name(frame.command.type) for frame in frames]


def size_of(frame_size: int) -> bytes:
    """Return the size field of a frame of ``frame_size`` bytes."""
    return struct.pack(">II", frame_size - 4, 16)


def received_by(broker: Connection, data: bytes, *, gather: bool) -> list[str]:
    """Return the types of the frames in ``data``; the broker answers CONNECT at once."""
    receive = broker.receive_gathering if gather else broker.receive_some
    found: list[Frame] = []
    while data or broker.decoder.has_more:
        found += cast("list[Frame]", receive(data, 100.0))
        data = b""
        if broker.state is State.AUTHENTICATING:
            broker.connected()
    return types(found)


@pytest.mark.parametrize("cut", [1, 10, len(CONNECT), len(CONNECT) + 1, len(CONNECT) + 100_000])
@pytest.mark.parametrize("gather", [True, False])
def test_a_command_that_does_not_wait_for_connected(cut: int, *, gather: bool) -> None:
    large = commands.producer(topic="t" * 2 * HANDSHAKE_FRAME_SIZE_MAX, producer_id=1, request_id=1)
    stream, broker = CONNECT + large + REQUEST, new_broker()
    parts = (stream[:cut], stream[cut:])
    assert [kind for part in parts for kind in received_by(broker, part, gather=gather)] == [
        "CONNECT",
        "PRODUCER",
        "FLOW",
    ]


def test_a_command_during_the_check_of_credentials_is_illegal() -> None:
    broker = new_broker()
    assert len(broker.receive_gathering(CONNECT + REQUEST, 100.0)) == 1
    with pytest.raises(RemoteProtocolError, match="FLOW"):
        broker.receive_gathering(b"", 100.0)


def test_a_frame_before_the_handshake_has_a_small_limit() -> None:
    broker = new_broker()
    assert broker.receive(size_of(HANDSHAKE_FRAME_SIZE_MAX), 100.0) == []
    with pytest.raises(RemoteProtocolError, match=f"frame of {HANDSHAKE_FRAME_SIZE_MAX + 1} bytes exceeds the limit"):
        new_broker().receive(size_of(HANDSHAKE_FRAME_SIZE_MAX + 1), 100.0)
    assert connected_broker().receive(size_of(FRAME_SIZE_MAX), 100.0) == []
    with pytest.raises(RemoteProtocolError, match=f"exceeds the limit of {FRAME_SIZE_MAX}"):
        connected_broker().receive(size_of(FRAME_SIZE_MAX + 1), 100.0)
    with pytest.raises(RemoteProtocolError, match="exceeds the limit of 1000"):
        Connection(Role.BROKER, frame_size_max=1000, now=100.0).receive(size_of(1001), 100.0)


def test_a_broker_limits_commands_before_they_arrive() -> None:
    too_large = struct.pack(">II", COMMAND_SIZE_MAX + 5, COMMAND_SIZE_MAX + 1)
    assert connected_broker().receive(struct.pack(">II", COMMAND_SIZE_MAX + 4, COMMAND_SIZE_MAX), 100.0) == []
    with pytest.raises(RemoteProtocolError, match=r"exceeds the limit of 2097152 \(maxCommandSize\)") as refused:
        connected_broker().receive(too_large, 100.0)
    assert refused.value.limit is Limit.COMMAND_SIZE
    client = connection(Role.CLIENT)
    client.receive(CONNECTED, 100.0)
    assert client.receive(too_large, 100.0) == [], "lists of topics may be larger"


def test_handshake() -> None:
    broker, client = connection(Role.BROKER), connection(Role.CLIENT)
    assert types(broker.receive(CONNECT, 100.0)) == ["CONNECT"]
    assert (broker.peer_version, broker.peer_protocol_version) == ("test 1", 19)
    assert broker.peer_features.supports_auth_refresh
    broker.connected()
    assert broker.state is State.CONNECTED
    assert types(client.receive(CONNECTED, 100.0)) == ["CONNECTED"]
    assert client.state is State.CONNECTED
    assert (client.peer_version, client.peer_protocol_version) == ("Magnetar test", 19)
    assert client.peer_max_message_size == 1000


def test_a_broker_may_authenticate_in_steps() -> None:
    broker = connection(Role.BROKER)
    broker.receive(CONNECT, 100.0)
    answer = commands.encode(pb.CommandAuthResponse(client_version="test"))
    assert types(broker.receive(answer, 100.0)) == ["AUTH_RESPONSE"]
    assert broker.state is State.AUTHENTICATING


def test_a_refused_client_hears_why() -> None:
    refusal = commands.error(request_id=commands.UNSOLICITED, code=ServerError.AuthenticationError, message="no")
    assert types(connection(Role.CLIENT).receive(refusal, 100.0)) == ["ERROR"]


@pytest.mark.parametrize(
    ("role", "before", "illegal"),
    [
        (Role.BROKER, b"", REQUEST),
        (Role.BROKER, b"", commands.encode(pb.CommandAuthResponse())),
        (Role.BROKER, CONNECT, CONNECT),
        (Role.BROKER, CONNECT, REQUEST),
        (Role.CLIENT, b"", ANSWER),
        (Role.CLIENT, CONNECTED, CONNECTED),
        (Role.CLIENT, CONNECTED, CONNECT),
        (Role.CLIENT, CONNECTED, REQUEST),
    ],
)
def test_unlisted_events_close_the_connection(role: Role, before: bytes, illegal: bytes) -> None:
    machine = connection(role)
    machine.receive(before, 100.0)
    with pytest.raises(RemoteProtocolError, match="is not legal"):
        machine.receive(illegal, 100.0)
    assert machine.state is State.CLOSED


def test_each_command_has_one_direction_but_for_four() -> None:
    both = {pb.BaseCommand.CLOSE_PRODUCER, pb.BaseCommand.CLOSE_CONSUMER}
    assert both == _REQUESTS & _ANSWERS
    handshake = {pb.BaseCommand.CONNECT, pb.BaseCommand.CONNECTED, pb.BaseCommand.PING, pb.BaseCommand.PONG}
    assert _REQUESTS | _ANSWERS | handshake == set(pb.BaseCommand.Type.values())


@pytest.mark.parametrize("kind", sorted(_ANSWERS - _REQUESTS))
def test_a_connected_broker_refuses_what_brokers_say(kind: int) -> None:
    assert kind not in connected_broker()._legal


def test_ping_is_answered_and_neither_it_nor_pong_is_handed_on() -> None:
    broker = connected_broker()
    assert types(broker.receive(commands.ping() + REQUEST + commands.pong() + commands.ping(), 100.0)) == ["FLOW"]
    assert broker.take_output() == commands.pong() * 2
    assert broker.take_output() == b""


def test_keep_alive_asks_and_is_content_with_any_answer() -> None:
    for answer in (commands.pong(), REQUEST, REQUEST[:5]):
        broker = connected_broker()
        broker.on_tick(129.9)
        assert (broker.take_output(), broker.next_tick_at) == (b"", 130.0)
        broker.on_tick(130.0)
        assert (broker.take_output(), broker.next_tick_at) == (commands.ping(), 160.0)
        broker.receive(answer, 140.0)
        assert broker.last_received_at == 140.0
        broker.on_tick(160.0)
        assert broker.take_output() == commands.ping()


def test_a_silent_peer_is_given_up_at_the_second_tick() -> None:
    client = connected_client()
    client.on_tick(130.0)
    with pytest.raises(PeerSilentError, match="PING unanswered after 30 s"):
        client.on_tick(160.0)
    assert client.state is State.CLOSED
    client.on_tick(190.0)


def test_a_peer_to_whom_nobody_listens_is_not_taken_for_silent() -> None:
    broker = connected_broker()
    broker.on_tick(130.0)
    assert broker.take_output() == commands.ping()
    broker.on_tick(160.0, is_heard=False)
    assert (broker.take_output(), broker.next_tick_at) == (commands.ping(), 190.0), "a write shows that it has left"
    broker.on_tick(190.0)
    assert broker.take_output() == commands.ping(), "it has one interval for its answer"
    with pytest.raises(PeerSilentError):
        broker.on_tick(220.0)


def test_a_handshake_must_end_within_one_tick() -> None:
    for role in Role:
        with pytest.raises(PeerSilentError, match="handshake not finished"):
            connection(role).on_tick(130.0)


def test_a_peer_that_does_not_know_ping_is_not_asked() -> None:
    broker = connection(Role.BROKER)
    broker.receive(commands.connect(client_version="old", protocol_version=0), 100.0)
    broker.connected()
    broker.on_tick(130.0)
    broker.on_tick(160.0)
    assert broker.take_output() == b""


def test_a_probe_shows_in_what_was_received_last() -> None:
    broker = connected_broker()
    broker.probe()
    assert broker.take_output() == commands.ping()
    broker.receive(commands.pong(), 101.5)
    assert broker.last_received_at == 101.5


def test_misuse_is_ours() -> None:
    with pytest.raises(LocalProtocolError):
        connection(Role.BROKER).connected()
    with pytest.raises(LocalProtocolError):
        connected_client().connected()
    closed = connected_client()
    closed.closed()
    with pytest.raises(LocalProtocolError):
        closed.receive(ANSWER, 100.0)


def test_frames_are_limited() -> None:
    broker = Connection(Role.BROKER, frame_size_max=200, now=100.0)
    broker.receive(CONNECT, 100.0)
    broker.connected()
    with pytest.raises(RemoteProtocolError, match="exceeds the limit of 200"):
        broker.receive(commands.send(producer_id=1, sequence_id=1, entry=b"x" * 200), 100.0)
    assert broker.state is State.CLOSED


@given(st.data())
def test_any_bytes_give_legal_frames_or_a_protocol_error(data: st.DataObject) -> None:
    machine = data.draw(st.sampled_from([connected_broker, connected_client, new_broker]))()
    message = commands.message(consumer_id=1, position=Position(1, 2), entry=b"entry")
    parts = st.sampled_from([CONNECT, CONNECTED, REQUEST, ANSWER, commands.ping(), message])
    stream = bytearray(b"".join(data.draw(st.lists(parts | st.binary(max_size=20), max_size=6))))
    if stream:
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(stream)))
    legal = machine._legal
    try:
        frames = machine.receive(bytes(stream[:cut]), 101.0) + machine.receive(bytes(stream[cut:]), 102.0)
    except RemoteProtocolError:
        assert machine.state is State.CLOSED
        return
    assert all(frame.command.type in legal | {pb.BaseCommand.AUTH_RESPONSE} for frame in frames)
    assert set(types(FrameDecoder().feed(machine.take_output()))) <= {"PONG"}


@pytest.mark.parametrize("fields", [{"auth_data": b"x" * 60_000}, {"client_version": "x" * 60_000}])
def test_nothing_of_a_large_connect_is_kept(fields: dict[str, Any]) -> None:
    connect = commands.encode(
        pb.CommandConnect(
            **{"client_version": "test", "feature_flags": pb.FeatureFlags(supports_auth_refresh=True), **fields}
        )
    )
    before, brokers = resident_bytes(os.getpid()), [new_broker() for _ in range(500)]
    for broker in brokers:
        broker.receive_gathering(connect, 100.0)
        broker.connected()
    assert resident_bytes(os.getpid()) - before < 500 * len(connect) // 4
    assert brokers[0].peer_features.supports_auth_refresh
    assert len(brokers[0].peer_version) <= PEER_VERSION_LENGTH_MAX
