"""One connection as a state machine, for both roles: bytes and the time in, frames and bytes out.

A client opens with CONNECT, and the broker finishes the handshake with CONNECTED; between the two the broker may
authenticate. What each side may receive is in one table, ``_LEGAL``. Everything else is the peer's fault and ends the
connection, as an unknown command or a broken frame does. PING and PONG are legal from the start, are handled here and
never handed on.

::

    broker: CONNECTING --CONNECT--> AUTHENTICATING --connected()--> CONNECTED
    client: CONNECTING --CONNECTED--------------------------------> CONNECTED
    both:   any state --closed(), or an error raised here---------> CLOSED

Keep-alive: at each tick a handshake that is not finished or a PING that nothing answered ends the connection; else a
PING goes out. Whatever the peer sends counts as an answer.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from magnetar.base.errors import LocalProtocolError, PeerSilentError, RemoteProtocolError
from magnetar.base.limits import (
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
"""How a Magnetar broker begins its ``server_version``; every other broker is Apache Pulsar's, or speaks as it does."""

PEER_VERSION_LENGTH_MAX = 256
"""Characters of what a peer calls itself that are kept, for the log and statistics."""

_PING_SINCE_VERSION = 1
"""The protocol version from which a peer knows PING."""


class Role(Enum):
    """Which side of the connection this is."""

    BROKER = auto()
    CLIENT = auto()


class State(Enum):
    """How far the connection has come."""

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
    """What one side knows of a connection.

    The ``peer_…`` attributes hold what the peer said of itself in the handshake. ``last_received_at`` is when anything
    last came from it, on the clock that ``now`` is read from.
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

        A broker refuses frames of more than HANDSHAKE_FRAME_SIZE_MAX bytes until it has answered CONNECT: until then
        nobody knows the client, and an unfinished frame takes memory.
        """
        self._role = role
        self._frame_size_max = frame_size_max
        is_broker = role is Role.BROKER  # it reads few lists, and bounds them first
        if is_broker and frame_size_max > HANDSHAKE_FRAME_SIZE_MAX:
            size_max, limit = HANDSHAKE_FRAME_SIZE_MAX, Limit.HANDSHAKE_FRAME_SIZE
        else:
            size_max, limit = frame_size_max, Limit.MESSAGE_SIZE
        self._decoder = FrameDecoder(size_max, limit, lists_are_checked=not is_broker)
        self._keep_alive_interval_s = keep_alive_interval_s
        self._output: list[bytes] = []
        self._ping_unanswered = False
        self._enter(State.CONNECTING)
        self.next_tick_at = now + keep_alive_interval_s
        self.last_received_at = now
        self.peer_protocol_version = 0
        self.peer_version = ""
        self.peer_life = ""
        """The life of the broker's cluster; empty where the broker names none."""
        self.peer_features = pb.FeatureFlags()
        self.peer_max_message_size = MAX_MESSAGE_SIZE - FRAME_SIZE_PADDING

    @property
    def peer_is_magnetar(self) -> bool:
        """Whether the peer knows what Magnetar adds to the protocol: links, leases and progress."""
        return self.peer_version.startswith(MAGNETAR_VERSION_PREFIX)

    @property
    def unfinished(self) -> tuple[int, int]:
        """Bytes of the unfinished frame that have come, and those that have not (``FrameDecoder.unfinished``)."""
        return self._decoder.unfinished

    def receive(self, data: bytes, now: float) -> list[Frame]:
        """Take the next bytes from the peer and return the frames that they complete, in order.

        Raises RemoteProtocolError, and is CLOSED, when the peer breaks the protocol: no frame of ``data`` is handed on.
        """
        return cast("list[Frame]", self._receive(self._decoder.feed, data, now))

    def receive_gathering(self, data: bytes, now: float) -> list[Received]:
        """As ``receive``, with runs of SENDs and ACKs, and not all frames at once (``FrameDecoder.feed_gathering``)."""
        return self._receive(self._decoder.feed_gathering, data, now)

    @property
    def has_more(self) -> bool:
        """Whether bytes that were received may complete frames that ``receive_gathering`` has not returned yet."""
        return self._decoder.has_more

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
                    self._check_legal(_T.SEND if isinstance(frame, Sends) else _T.ACK)
        except RemoteProtocolError:
            self.closed()
            raise
        if not keep_alive:
            return frames
        return [frame for frame in frames if not isinstance(frame, Frame) or frame.command.type not in _KEEP_ALIVE]

    def connected(self) -> None:
        """Note that the broker has answered CONNECT with CONNECTED: the client may make requests from here on."""
        if self._role is not Role.BROKER or self.state is not State.AUTHENTICATING:
            message = f"connected() as {self._role.name} in state {self.state.name}"
            raise LocalProtocolError(message)
        self._decoder.limit(self._frame_size_max)
        self._enter(State.CONNECTED)

    def closed(self) -> None:
        """Note that the transport is gone, or is about to be."""
        self._enter(State.CLOSED)

    def probe(self) -> None:
        """Queue a PING now, so that a living peer shows in ``last_received_at``."""
        if self.peer_protocol_version >= _PING_SINCE_VERSION:
            self._output.append(commands.ping())
            self._ping_unanswered = True

    def on_tick(self, now: float, *, is_heard: bool = True) -> None:
        """Keep the connection alive; does nothing before ``next_tick_at``.

        While ``is_heard`` is false this side reads nothing, so the silence does not tell anything about the peer.

        Raises PeerSilentError, and is CLOSED, when the handshake is not finished or a PING was not answered.
        """
        if now < self.next_tick_at or self.state is State.CLOSED:
            return
        self.next_tick_at = now + self._keep_alive_interval_s
        if not is_heard:
            self._ping_unanswered = False
            return
        if self.state is not State.CONNECTED or self._ping_unanswered:
            reason = "PING unanswered" if self.state is State.CONNECTED else "handshake not finished"
            self.closed()
            message = f"{reason} after {self._keep_alive_interval_s:g} s ({Limit.KEEP_ALIVE})"
            raise PeerSilentError(message, Limit.KEEP_ALIVE)
        self.probe()

    def take_output(self) -> bytes:
        """Return what is to be sent to the peer, and forget it."""
        if not self._output:
            return b""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def _enter(self, state: State) -> None:
        """Go to ``state``, where nothing is legal that the table does not list."""
        self.state = state
        self._legal = _LEGAL.get((self._role, state), frozenset())

    def _accept(self, command: pb.BaseCommand) -> bool:
        """Apply a command to the state; True when it is a keep-alive command, done with here."""
        kind = command.type
        self._check_legal(kind)
        if kind == _T.PING:
            self._output.append(commands.pong())
        elif kind == _T.CONNECT:
            self._note_client(command.connect)
        elif kind == _T.CONNECTED:
            self._note_broker(command.connected)
        return kind in _KEEP_ALIVE

    def _check_legal(self, kind: _T.Type.ValueType) -> None:
        if kind not in self._legal:
            name = pb.BaseCommand.Type.Name(kind)
            message = f"{name} is not legal for a {self._role.name} to receive in state {self.state.name}"
            raise RemoteProtocolError(message)

    def _note_client(self, connect: pb.CommandConnect) -> None:
        """The client introduced itself."""
        self.peer_protocol_version = connect.protocol_version
        self.peer_version = connect.client_version[:PEER_VERSION_LENGTH_MAX]
        self.peer_features.CopyFrom(connect.feature_flags)  # a part of the command would keep all of it in memory
        self._enter(State.AUTHENTICATING)

    def _note_broker(self, connected: pb.CommandConnected) -> None:
        """The broker accepted us."""
        self.peer_protocol_version = connected.protocol_version
        self.peer_version = connected.server_version[:PEER_VERSION_LENGTH_MAX]
        self.peer_life = connected.life
        self.peer_features.CopyFrom(connected.feature_flags)
        if connected.max_message_size > 0:
            self.peer_max_message_size = connected.max_message_size
        self._enter(State.CONNECTED)
