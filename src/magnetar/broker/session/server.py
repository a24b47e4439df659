"""Sockets: bytes in, frames to the session, one joined write a turn of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import structlog

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import FRAME_SIZE_PADDING, Limit
from magnetar.broker.loop.closing import close_each
from magnetar.broker.loop.turns import Share
from magnetar.broker.resources.memory import READ_BYTES
from magnetar.broker.session.receiving import receive
from magnetar.broker.session.session import Session
from magnetar.wire.connection import Connection, Role

if TYPE_CHECKING:
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.wire.frame import Received

log = structlog.get_logger(__name__)

MEMORY_WATCH_INTERVAL_S = 0.5
"""Seconds between two looks for clients that keep memory which others wait for."""


class ServerProtocol(asyncio.BufferedProtocol):
    """One client's socket. It is read into the buffer of the server, so that the server decides how much."""

    def __init__(self, server: Server) -> None:
        """Not connected yet."""
        self._server = server
        self._environment = server.environment
        config = server.environment.config
        self._connection = Connection(
            Role.BROKER,
            frame_size_max=config.maxMessageSize + FRAME_SIZE_PADDING,
            keep_alive_interval_s=config.keepAliveIntervalSeconds,
            now=server.environment.clock.monotonic(),
        )
        self._turns = server.environment.turns
        self._share = Share()
        self._arrived: list[bytes] = []
        """What arrived while the connection had to wait for its turn."""
        self._left: list[Received] = []
        """Frames that are not handled yet."""
        self._is_waiting = False
        """Whether it waits for its turn."""
        self._is_dropped = False
        """Whether nothing that was received is handled any more."""
        self._transport: asyncio.Transport | None = None
        self._output: list[bytes] = []
        self._flush_scheduled = False
        self.session = Session(server.environment, server.topics, self, self._connection)
        self._memory = server.environment.memory
        self._account = self.session.account
        self._buffer = server.buffer

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse what is over the limit, serve the rest."""
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        transport.set_write_buffer_limits(high=0)  # so it says when all is sent
        host, port = transport.get_extra_info("peername")[:2]
        self.session.address = f"/{host}:{port}"
        if not self._server.admit(self):
            limit = self._server.connections_limit
            self._environment.limit_hits.hit(limit)
            log.warning(
                "connection_refused",
                address=self.session.address,
                limit=limit.value,
                connections=self._server.connections_max,
            )
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say how much is read next."""
        del sizehint  # of the transport, which always says the same
        size = self._memory.read_size(self._account)
        return self._buffer if size == READ_BYTES else self._server.short_buffer(size)

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self.data_received(self._buffer[:nbytes].tobytes())

    def data_received(self, data: bytes) -> None:
        """Handle whole frames, as many as this turn of the loop has room for, and the others in later turns.

        A peer that breaks the protocol is disconnected, nobody else notices.
        """
        now = self._environment.clock.monotonic()
        if self._is_waiting or not self._turns.begin(now):
            self._arrived.append(data)
            self._wait()
        else:
            self._handle(data, now)
        if self._is_waiting:
            self._account.defer(len(data))

    def eof_received(self) -> bool:
        """A half-closed socket is a closed one: the protocol has no use for it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Producers and consumers leave with their connection."""
        del exc
        self._server.forget(self)
        if self._is_waiting and not self._is_dropped:
            self.session.has_left = True
        else:
            self.session.closed()

    def resume_writing(self) -> None:
        """Everything is sent."""
        self._note_unsent(0)

    # -- what the session asks for ------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Send at the end of this turn, joined with everything else for this client."""
        if not frame:
            return
        self._output.append(frame)
        self.session.written(len(frame))
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._environment.loop.call_soon(self._flush)

    def pause_reading(self) -> None:
        """Let TCP hold the client back."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send what is written, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def stop(self) -> None:
        """Close, and handle nothing more that was received: the broker is about to end."""
        self._is_dropped = True
        self.close()

    def tick(self, now: float) -> None:
        """Keep-alive; drops a peer that is silent."""
        try:
            self._connection.on_tick(now, is_heard=not self.session.is_held_back)
        except RemoteProtocolError as error:
            self._drop("peer_silent", error)
        else:
            self.write(self._connection.take_output())

    def probe(self) -> None:
        """Ask the client for a sign of life."""
        self._connection.probe()
        self.write(self._connection.take_output())

    def abort(self) -> None:
        """Close at once, whatever is unsent."""
        if self._transport is not None:
            self._transport.abort()

    def drop_stalled(self, limit: Limit) -> None:
        """Drop a client that holds memory which others wait for, and does nothing with it."""
        account = self.session.account
        log.warning(
            "stalled_connection_dropped",
            address=self.session.address,
            client=self._connection.peer_version,
            limit=limit.value,
            missing_bytes=account.frame_missing,
            unread_bytes=account.unsent.size,
        )
        self.abort()

    def has_stalled_reading(self, now: float) -> bool:
        """Whether the client has much to read and reads nothing."""
        unsent, transport = self.session.account.unsent, self._transport
        if unsent.size and transport is not None and not transport.is_closing():
            self._note_unsent(transport.get_write_buffer_size())
        return unsent.has_stalled(now)

    def _flush(self) -> None:
        self._flush_scheduled = False
        output, self._output = self._output, []
        if output and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(output))
            is_over = self._account.unsent.flushed(self._transport.get_write_buffer_size())
            self._note_writable(is_writable=not is_over)

    def _note_unsent(self, size: int) -> None:
        """Note how much of what was written is left; with too much of it the client gets no more messages."""
        unsent = self._account.unsent
        unsent.left(size)
        self._note_writable(is_writable=not unsent.is_over)

    def _note_writable(self, *, is_writable: bool) -> None:
        if not (is_writable and self.session.is_writable):
            self.session.writable(is_writable=is_writable)

    # -- turns --------------------------------------------------------------------------------------------------

    def _handle(self, data: bytes, now: float) -> None:
        """Handle what is left and what ``data`` completes, until the turn is over."""
        connection, session = self._connection, self.session
        try:
            left = receive(session, self._left or connection.receive_gathering(data, now))
            while (has_more := connection.has_more) and not left and not self._turns.is_over():
                left = receive(session, connection.receive_gathering(b"", now))
        except RemoteProtocolError as error:
            self._drop("protocol_error", error)
        except Exception:
            # The root of a connection's work: a bug of ours must not take other clients down.
            log.exception("connection_failed", address=session.address)
            self._is_dropped = True
            self.close()
        else:
            self._left = left
            if left or has_more:
                self._wait()
            else:
                session.frame_arrived(*connection.unfinished)
            output = connection.take_output()
            if output:
                self.write(output)

    def _wait(self) -> None:
        """Go on in a later turn."""
        if not self._is_waiting:
            self._is_waiting = True
            self.session.caught_up(is_caught_up=False)
            self._turns.soon(self._go_on, self._share)

    def _go_on(self) -> None:
        self._is_waiting = False
        if self.session.is_open and not self._is_dropped:
            data = b""
            if not self._left:
                data = b"".join(self._arrived)
                self._arrived.clear()
            self._handle(data, self._environment.clock.monotonic())
            if self._arrived:
                self._wait()
        if self._is_waiting:
            return
        self._account.handled()
        if self.session.has_left:
            self.session.closed()
        else:
            self.session.caught_up(is_caught_up=True)

    def _drop(self, event: str, error: RemoteProtocolError) -> None:
        self._environment.limit_hits.note(error)
        log.warning(event, address=self.session.address, client=self._connection.peer_version, error=str(error))
        self._is_dropped = True
        self.close()


class Server:
    """The listening socket of the binary protocol and its connections."""

    protocol: type[ServerProtocol] = ServerProtocol
    """What serves a connection."""

    def __init__(self, environment: Environment, topics: TopicRegistry, connections_max: int | None = None) -> None:
        """Not listening yet; accept ``connections_max`` connections, by default what the configuration says."""
        self.connections_max = connections_max or environment.config.maxConcurrentConnections
        self.environment = environment
        self.topics = topics
        self.buffer = memoryview(bytearray(READ_BYTES))
        """What is read from a socket, until it is taken in the same turn of the loop."""
        self._has_short_reads = self._had_short_reads = False
        """Whether a read was short since the last look at the memory, and since the one before."""
        self._protocols: dict[ServerProtocol, None] = {}  # in the order in which they connected
        self._listener: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._memory_watch: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that is listened on, for ``port`` 0 the one that was picked. Raises OSError."""
        loop = self.environment.loop
        self._listener = await loop.create_server(lambda: self.protocol(self), host, port, backlog=1024)
        self._tick()
        self._watch_memory()
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the listener and every connection."""
        for timer in (self._ticker, self._memory_watch):
            if timer is not None:
                timer.cancel()
        if self._listener is not None:
            self._listener.close()
        close_each(self.environment.loop, "server", [("connection", protocol.stop) for protocol in self._protocols])
        if self._listener is not None:
            await self._listener.wait_closed()

    @property
    def connections_limit(self) -> Limit:
        """The limit that decides how many connections are accepted."""
        configured = self.environment.config.maxConcurrentConnections
        return Limit.OPEN_FILES if self.connections_max < configured else Limit.CONNECTIONS

    def short_buffer(self, size: int) -> memoryview:
        """Return a buffer for a read of ``size`` bytes, less than READ_BYTES.

        A time in which reads are short is one hit of the limit. It ends when nothing was short for a look.
        """
        if not self._had_short_reads:
            self.environment.limit_hits.hit(Limit.PUBLISH_BUFFER)
        self._had_short_reads = self._has_short_reads = True
        return self.buffer[:size]

    def admit(self, protocol: ServerProtocol) -> bool:
        """Count a connection in; whether there is room for it."""
        if len(self._protocols) >= self.connections_max:
            return False
        self._protocols[protocol] = None
        return True

    def forget(self, protocol: ServerProtocol) -> None:
        """Count a connection out."""
        self._protocols.pop(protocol, None)

    def _watch_memory(self) -> None:
        """Drop the clients that keep memory which others wait for, and do nothing with it."""
        loop, memory, now = self.environment.loop, self.environment.memory, self.environment.clock.monotonic()
        stalled = memory.stalled(now)
        self._had_short_reads, self._has_short_reads = self._has_short_reads, False
        if stalled:
            for protocol in [each for each in self._protocols if each.session.account in stalled]:
                protocol.drop_stalled(Limit.PUBLISH_BUFFER)
        if memory.sending.is_waited_for:
            for protocol in [each for each in self._protocols if each.has_stalled_reading(now)]:
                protocol.drop_stalled(Limit.SEND_BUFFERS)
            memory.sending.look(now)
        self._memory_watch = loop.call_later(MEMORY_WATCH_INTERVAL_S, self._watch_memory)

    def _tick(self) -> None:
        now = self.environment.clock.monotonic()
        for protocol in tuple(self._protocols):
            protocol.tick(now)
        self._ticker = self.environment.loop.call_later(
            self.environment.config.keepAliveIntervalSeconds / 4, self._tick
        )
