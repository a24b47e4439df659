"""One connection as a state machine, for both roles: received bytes and the time in, frames and bytes to send out.

A client opens with CONNECT, and the broker completes the handshake with CONNECTED; in between the broker may
authenticate the client. The table ``_LEGAL`` lists the commands that each role may receive in each state. Any other
command, an unknown command and a malformed frame are errors of the peer and close the connection. PING and PONG are
legal in every state. They are handled here and never passed on.

::

    broker: CONNECTING --CONNECT--> AUTHENTICATING --connected()--> CONNECTED
    client: CONNECTING --CONNECTED--------------------------------> CONNECTED
    both:   any state --closed(), or an error raised here---------> CLOSED

Keep-alive: at each tick, an unfinished handshake or an unanswered PING closes the connection; otherwise a PING is sent.
Any received byte counts as an answer.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from magnetar.base.errors import LocalProtocolError, PeerSilentError, RemoteProtocolError
from magnetar.base.limits import (
    COMMAND_SIZE_MAX,
    FRAME_SIZE_PADDING,
    HANDSHAKE_FRAME_SIZE_MAX,
    KEEP_ALIVE_INTERVAL_SECONDS,
    MAX_MESSAGE_SIZE,
    Limit,
)
from magnetar.wire import commands
from magnetar.wire.frame import FRAME_SIZE_MAX, Frame, FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Sends

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.wire.frame import Received

MAGNETAR_VERSION_PREFIX = "Magnetar"
"""Prefix of a Magnetar broker's ``server_version``; every other broker is treated as Apache Pulsar."""

PEER_VERSION_LENGTH_MAX = 256
"""Maximum number of characters kept of the peer's version string, for the log and statistics."""

_PING_SINCE_VERSION = 1
"""The first protocol version with PING."""


class Role(Enum):
    """The side of the connection that this state machine plays."""

    BROKER = auto()
    CLIENT = auto()


class State(Enum):
    """The state of the connection."""

    CONNECTING = auto()
    AUTHENTICATING = auto()
    CONNECTED = auto()
    CLOSED = auto()


_T = pb.BaseCommand

_KEEP_ALIVE = frozenset({_T.PING, _T.PONG})

_REQUESTS = frozenset(
    {
        *(_T.SUBSCRIBE, _T.PRODUCER, _T.SEND, _T.ACK, _T.FLOW, _T.UNSUBSCRIBE, _T.SEEK),
        *(_T.CLOSE_PRODUCER, _T.CLOSE_CONSUMER, _T.REDELIVER_UNACKNOWLEDGED_MESSAGES),
        *(_T.PARTITIONED_METADATA, _T.LOOKUP, _T.GET_TOPICS_OF_NAMESPACE),
        *(_T.CONSUMER_STATS, _T.GET_LAST_MESSAGE_ID, _T.GET_SCHEMA, _T.GET_OR_CREATE_SCHEMA),
        *(_T.AUTH_RESPONSE, _T.WATCH_TOPIC_LIST, _T.WATCH_TOPIC_LIST_CLOSE),
        *(_T.WATCH_LINKS, _T.CARRY_LINKS, _T.WATCH_LOSSES),
        *(_T.NEW_TXN, _T.ADD_PARTITION_TO_TXN, _T.ADD_SUBSCRIPTION_TO_TXN, _T.END_TXN),
        *(_T.END_TXN_ON_PARTITION, _T.END_TXN_ON_SUBSCRIPTION, _T.TC_CLIENT_CONNECT_REQUEST),
    },
)

_ANSWERS = frozenset(
    {
        *(_T.SEND_RECEIPT, _T.SEND_ERROR, _T.MESSAGE, _T.SUCCESS, _T.ERROR, _T.PRODUCER_SUCCESS, _T.ACK_RESPONSE),
        *(_T.CLOSE_PRODUCER, _T.CLOSE_CONSUMER, _T.TOPIC_MIGRATED),
        *(_T.PARTITIONED_METADATA_RESPONSE, _T.LOOKUP_RESPONSE, _T.GET_TOPICS_OF_NAMESPACE_RESPONSE),
        *(_T.CONSUMER_STATS_RESPONSE, _T.GET_LAST_MESSAGE_ID_RESPONSE),
        *(_T.GET_SCHEMA_RESPONSE, _T.GET_OR_CREATE_SCHEMA_RESPONSE),
        *(_T.REACHED_END_OF_TOPIC, _T.ACTIVE_CONSUMER_CHANGE, _T.AUTH_CHALLENGE),
        *(_T.WATCH_TOPIC_LIST_SUCCESS, _T.WATCH_TOPIC_UPDATE),
        *(_T.LINKS_CHANGED, _T.LINKS_DUE, _T.TOPICS_LOST),
    },
)

_LEGAL: dict[tuple[Role, State], frozenset[_T.Type.ValueType]] = {
    (Role.BROKER, State.CONNECTING): _KEEP_ALIVE | {_T.CONNECT},
    (Role.BROKER, State.AUTHENTICATING): _KEEP_ALIVE | {_T.AUTH_RESPONSE},
    (Role.BROKER, State.CONNECTED): _KEEP_ALIVE | _REQUESTS,
    (Role.CLIENT, State.CONNECTING): _KEEP_ALIVE | {_T.CONNECTED, _T.AUTH_CHALLENGE, _T.ERROR},
    (Role.CLIENT, State.CONNECTED): _KEEP_ALIVE | _ANSWERS,
}


class Connection:
    """The state of a connection as one side knows it.

    ``decoder`` holds the received bytes of frames that were not returned yet.

    The ``peer_…`` attributes hold the peer's statements in the handshake. ``last_received_at`` is the time of the last
    received byte, on the clock of ``now``.
    """

    def __init__(
        self,
        role: Role,
        *,
        frame_size_max: int = FRAME_SIZE_MAX,
        keep_alive_interval_s: float = KEEP_ALIVE_INTERVAL_SECONDS,
        now: float,
    ) -> None:
        """Begin at ``now``; refuse frames of more than ``frame_size_max`` bytes.

        A broker refuses frames of more than HANDSHAKE_FRAME_SIZE_MAX bytes until it has answered CONNECT: the client is
        not authenticated before, and an unfinished frame takes memory.
        """
        self._role = role
        self._frame_size_max = frame_size_max
        is_broker = role is Role.BROKER  # a broker reads few repeated fields, and bounds them first
        if is_broker and frame_size_max > HANDSHAKE_FRAME_SIZE_MAX:
            size_max, limit = HANDSHAKE_FRAME_SIZE_MAX, Limit.HANDSHAKE_FRAME_SIZE
        else:
            size_max, limit = frame_size_max, Limit.MESSAGE_SIZE
        command_size_max = COMMAND_SIZE_MAX if is_broker else None
        self.decoder = FrameDecoder(size_max, limit, command_size_max=command_size_max, lists_are_checked=not is_broker)
        self._keep_alive_interval_s = keep_alive_interval_s
        self._output: list[bytes] = []
        self._ping_unanswered = False
        self._enter(State.CONNECTING)
        self.next_tick_at = now + keep_alive_interval_s
        self.last_received_at = now
        self.peer_protocol_version = 0
        self.peer_version = ""
        self.peer_life = ""
        """The life of the broker's cluster; empty if the broker does not send one."""
        self.peer_features = pb.FeatureFlags()
        self.peer_max_message_size = MAX_MESSAGE_SIZE - FRAME_SIZE_PADDING

    @property
    def peer_is_magnetar(self) -> bool:
        """Whether the peer is Magnetar. If it is a broker, it supports links, leases and progress."""
        return self.peer_version.startswith(MAGNETAR_VERSION_PREFIX)

    def receive(self, data: bytes, now: float) -> list[Frame]:
        """Process received bytes and return the frames that they complete, in order.

        Raises RemoteProtocolError, and is CLOSED, when the peer violates the protocol: no frame of ``data`` is handed
        on.
        """
        return cast("list[Frame]", self._receive(self.decoder.feed, data, now))

    def receive_some(self, data: bytes, now: float) -> list[Frame]:
        """Like ``receive``, but return some frames at a time (see ``FrameDecoder``).

        Until the connection is CONNECTED, one frame at a time: the answer to it decides whether the next one is legal.
        A client that does not wait for CONNECTED may send both in one packet.
        """
        is_open = self.state is State.CONNECTED
        return cast(
            "list[Frame]", self._receive(self.decoder.feed_some if is_open else self.decoder.feed_one, data, now)
        )

    def receive_gathering(self, data: bytes, now: float) -> list[Received]:
        """Like ``receive_some``, but return runs of SENDs and ACKs (see ``FrameDecoder``)."""
        is_open = self.state is State.CONNECTED
        return self._receive(self.decoder.feed_gathering if is_open else self.decoder.feed_one, data, now)

    def _receive(
        self, feed: Callable[[bytes], list[Frame] | list[Received]], data: bytes, now: float
    ) -> list[Received]:
        if self.state is State.CLOSED:
            message = "bytes received on a closed connection"
            raise LocalProtocolError(message)
        self.last_received_at = now
        self._ping_unanswered = False
        try:
            frames = cast("list[Received]", feed(data))
            keep_alive = False
            for frame in frames:
                if isinstance(frame, Frame):
                    keep_alive |= self._accept(frame.command)
                else:
                    kind = _T.SEND if isinstance(frame, Sends) else _T.ACK
                    if kind not in self._legal:
                        raise self._illegal(kind)
        except RemoteProtocolError:
            self.closed()
            raise
        if not keep_alive:
            return frames
        return [frame for frame in frames if not isinstance(frame, Frame) or frame.command.type not in _KEEP_ALIVE]

    def connected(self) -> None:
        """Record that the broker has answered CONNECT with CONNECTED: the client may make requests now."""
        if self._role is not Role.BROKER or self.state is not State.AUTHENTICATING:
            message = f"connected() as {self._role.name} in state {self.state.name}"
            raise LocalProtocolError(message)
        self.decoder.limit(self._frame_size_max)
        self._enter(State.CONNECTED)

    def closed(self) -> None:
        """Record that the transport is closed or about to be closed."""
        self._enter(State.CLOSED)

    def probe(self) -> None:
        """Queue a PING now, so that ``last_received_at`` shows whether the peer is alive."""
        if self.peer_protocol_version >= _PING_SINCE_VERSION:
            self._output.append(commands.ping())
            self._ping_unanswered = True

    def on_tick(self, now: float, *, is_heard: bool = True) -> None:
        """Keep the connection alive; does nothing before ``next_tick_at``.

        ``is_heard`` is false while this side does not read from the socket: a missing answer then says nothing about
        the peer. A PING is sent nevertheless, because the end of a connection that is not read is only seen by a write.

        Raises PeerSilentError, and is CLOSED, when the handshake is not finished or a PING was not answered.
        """
        if now < self.next_tick_at or self.state is State.CLOSED:
            return
        self.next_tick_at = now + self._keep_alive_interval_s
        if not is_heard:
            if self.state is State.CONNECTED:
                self.probe()
            self._ping_unanswered = False
            return
        if self.state is not State.CONNECTED or self._ping_unanswered:
            reason = "PING unanswered" if self.state is State.CONNECTED else "handshake not finished"
            self.closed()
            message = f"{reason} after {self._keep_alive_interval_s:g} s ({Limit.KEEP_ALIVE})"
            raise PeerSilentError(message, Limit.KEEP_ALIVE)
        self.probe()

    def take_output(self) -> bytes:
        """Remove and return the bytes to send to the peer."""
        if not self._output:
            return b""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def _enter(self, state: State) -> None:
        """Change to ``state``, with the legal commands that the table lists for it."""
        self.state = state
        self._legal = _LEGAL.get((self._role, state), frozenset())

    def _accept(self, command: pb.BaseCommand) -> bool:
        """Apply a command to the state; return True for a keep-alive command, which needs no further handling."""
        kind = command.type
        if kind not in self._legal:
            raise self._illegal(kind)
        if kind == _T.PING:
            self._output.append(commands.pong())
        elif kind == _T.CONNECT:
            self._note_client(command.connect)
        elif kind == _T.CONNECTED:
            self._note_broker(command.connected)
        return kind in _KEEP_ALIVE

    def _illegal(self, kind: _T.Type.ValueType) -> RemoteProtocolError:
        name = pb.BaseCommand.Type.Name(kind)
        return RemoteProtocolError(f"{name} is not legal for a {self._role.name} to receive in state {self.state.name}")

    def _note_client(self, connect: pb.CommandConnect) -> None:
        """Keep the client's statements in CONNECT."""
        self.peer_protocol_version = connect.protocol_version
        self.peer_version = connect.client_version[:PEER_VERSION_LENGTH_MAX]
        # a reference to a part of the command would keep all of it in memory
        self.peer_features.CopyFrom(connect.feature_flags)
        self._enter(State.AUTHENTICATING)

    def _note_broker(self, connected: pb.CommandConnected) -> None:
        """Keep the broker's statements in CONNECTED."""
        self.peer_protocol_version = connected.protocol_version
        self.peer_version = connected.server_version[:PEER_VERSION_LENGTH_MAX]
        self.peer_life = connected.life
        self.peer_features.CopyFrom(connected.feature_flags)
        if connected.max_message_size > 0:
            self.peer_max_message_size = connected.max_message_size
        self._enter(State.CONNECTED)
