"""Sockets: received bytes become frames for the session; each turn of the loop makes one write."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import FRAME_SIZE_PADDING, Limit
from magnetar.broker.loop.closing import close_each
from magnetar.broker.loop.turns import Share
from magnetar.broker.resources.memory import READ_BYTES
from magnetar.broker.session.handshake.checking import refuse_address
from magnetar.broker.session.handshake.foreign import foreign_protocol, remedy
from magnetar.broker.session.receiving import receive
from magnetar.broker.session.session import Session
from magnetar.security.peer_certificate import peer_certificate
from magnetar.wire.connection import Connection, Role

if TYPE_CHECKING:
    from magnetar.broker.domains import Domains
    from magnetar.broker.environment import Environment
    from magnetar.broker.tls.connection import SecurePort
    from magnetar.wire.frame import Received

log = structlog.get_logger(__name__)

MEMORY_WATCH_INTERVAL_S = 0.5
"""Seconds between two checks for clients that occupy memory that others wait for."""


class ServerProtocol(asyncio.BufferedProtocol):
    """Socket of one client. It is read into a buffer of the server, which decides the size of reads."""

    def __init__(self, server: Server, listener: str = "") -> None:
        """Create the protocol of a port with ``listener``; it is not connected yet."""
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
        self._monotonic = server.environment.clock.monotonic
        self._share = Share()
        self._arrived: list[bytes] = []
        """Bytes that arrived while the connection waited for its turn."""
        self._left: list[Received] = []
        """Frames that wait to be handled."""
        self._is_waiting = False
        """Whether the connection waits for its turn."""
        self._is_dropped = False
        """Whether received data is no longer handled."""
        self._transport: asyncio.Transport | None = None
        self._host = ""
        """Address of the client, once the connection counts for it."""
        self._output: list[bytes] = []
        self._flush_scheduled = False
        self.session = Session(server.environment, server.topics, self, self._connection)
        self.session.listener = listener
        self._memory = server.environment.memory
        self._account = self.session.account
        self._buffer = server.buffer

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it beyond the limit."""
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._environment.connections.created += 1
        transport.set_write_buffer_limits(high=0)  # so that it reports when all is sent
        host, port = transport.get_extra_info("peername")[:2]
        self.session.address = f"/{host}:{port}"
        self.session.peer_certificate = peer_certificate(transport)
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
        elif self._environment.connection_limits.admits_address(host):
            self._host = host
        else:
            self._is_dropped = True
            refuse_address(self.session)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        del sizehint  # the transport always passes the same value
        size = self._memory.read_size(self._account)
        return self._buffer if size == READ_BYTES else self._server.short_buffer(size)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that were read."""
        self.data_received(self._buffer[:nbytes].tobytes())

    def data_received(self, data: bytes) -> None:
        """Handle complete frames, as many as this turn allows, and the others in later turns.

        A peer that violates the protocol is disconnected; others are not affected.
        """
        now = self._monotonic()
        if self._is_waiting or not self._turns.begin(now):
            self._arrived.append(data)
            self._wait()
        else:
            self._handle(data, now)
        if self._is_waiting:
            self._account.defer(len(data))

    def eof_received(self) -> bool:
        """Close a half-closed socket, which the protocol does not use."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the producers and consumers of the connection."""
        del exc
        counts = self._environment.connections
        counts.closed += 1
        counts.failed += not self.session.has_connected
        self._server.forget(self)
        if self._host:
            self._environment.connection_limits.left_address(self._host)
        if self._is_waiting and not self._is_dropped:
            self.session.has_left = True
        else:
            self.session.closed()

    def resume_writing(self) -> None:
        """Handle that all data is sent."""
        self._note_unsent(0)

    # -- interface of the session -------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Send at the end of this turn, together with all other data for this client."""
        self._output.append(frame)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._environment.loop.call_soon(self._flush)

    def pause_reading(self) -> None:
        """Stop reading, so that TCP slows the client down."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send all written data, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def stop(self) -> None:
        """Close, and ignore received data, because the broker is ending."""
        self._is_dropped = True
        self.close()

    def tick(self, now: float) -> None:
        """Send a keep-alive; close the connection of a silent peer."""
        try:
            self._connection.on_tick(now, is_heard=not self.session.is_held_back)
        except RemoteProtocolError as error:
            self._drop("peer_silent", error)
        else:
            self.session.write(self._connection.take_output())

    def probe(self) -> None:
        """Send a PING to the client."""
        self._connection.probe()
        self.session.write(self._connection.take_output())

    def abort(self) -> None:
        """Close at once; unsent data is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def drop_stalled(self, limit: Limit) -> None:
        """Close the connection of a client that occupies memory that others wait for, and makes no progress."""
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
        """Return whether the client has much data to read and reads none."""
        unsent, transport = self.session.account.unsent, self._transport
        if unsent.size and transport is not None and not transport.is_closing():
            self._note_unsent(transport.get_write_buffer_size())
        return unsent.has_stalled(now)

    def _flush(self) -> None:
        self._flush_scheduled = False
        output, self._output = self._output, []
        transport = self._transport
        if output and transport is not None and not transport.is_closing():
            transport.write(output[0] if len(output) == 1 else b"".join(output))
            is_over = self._account.unsent.flushed(transport.get_write_buffer_size())
            if is_over or not self.session.is_writable:
                self.session.writable(is_writable=not is_over)

    def _note_unsent(self, size: int) -> None:
        """Update the amount of unsent data; above the limit, the client gets no more messages."""
        unsent = self._account.unsent
        unsent.left(size)
        if unsent.is_over or not self.session.is_writable:
            self.session.writable(is_writable=not unsent.is_over)

    # -- turns --------------------------------------------------------------------------------------------------

    def _handle(self, data: bytes, now: float) -> None:
        """Handle remaining frames and those that ``data`` completes, until the turn is over."""
        connection, session = self._connection, self.session
        decoder = connection.decoder
        try:
            left = receive(session, self._left or connection.receive_gathering(data, now))
            while decoder.has_more and not left and not self._turns.is_over():
                left = receive(session, connection.receive_gathering(b"", now))
        except RemoteProtocolError as error:
            self._drop_invalid(data, error)
        except Exception:
            # The root of a connection's work: a bug must not affect other clients.
            log.exception("connection_failed", address=session.address)
            self._is_dropped = True
            self.close()
        else:
            self._left = left
            if left or decoder.has_more:
                self._wait()
            elif decoder.held or self._account.frame_held:
                session.frame_arrived(*decoder.unfinished)
            output = connection.take_output()
            if output:
                session.write(output)

    def _wait(self) -> None:
        """Continue in a later turn."""
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

    def _drop_invalid(self, data: bytes, error: RemoteProtocolError) -> None:
        protocol = None if self._connection.peer_version else foreign_protocol(data)
        if protocol is None:
            self._drop("protocol_error", error)
        else:
            self._drop("foreign_protocol", error, protocol=protocol, remedy=remedy(protocol))

    def _drop(self, event: str, error: RemoteProtocolError, **facts: str) -> None:
        self._environment.limit_hits.note(error)
        client = self._connection.peer_version
        log.warning(event, address=self.session.address, client=client, error=str(error), **facts)
        self._is_dropped = True
        self.close()


class Server:
    """The listening sockets of the binary protocol and their connections."""

    protocol: type[ServerProtocol] = ServerProtocol
    """Return the protocol of a new connection."""

    def __init__(self, environment: Environment, topics: Domains, connections_max: int | None = None) -> None:
        """Create the server; it accepts ``connections_max`` connections, by default the configured number."""
        self.connections_max = connections_max or environment.config.maxConcurrentConnections
        self.environment = environment
        self.topics = topics
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Bytes read from a socket, which are handled in the same turn of the loop."""
        self._has_short_reads = self._had_short_reads = False
        """Whether reads were reduced since the last check of the memory, and since the check before."""
        self._protocols: dict[ServerProtocol, None] = {}  # in the order of connection
        self._listening: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._memory_watch: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to check the connections."""
        self._tick()
        self._watch_memory()

    async def listen(
        self, host: str, port: int, secure: SecurePort | None = None, listener: str = ""
    ) -> list[tuple[str, int]]:
        """Listen on a port, with TLS if ``secure`` is given; return the address and the number of each socket.

        The system chooses the number for ``port`` 0. Clients use ``listener`` unless they name one. Raises OSError.
        """
        plain = partial(self.protocol, self, listener)
        make = plain if secure is None else partial(secure.protocol, plain)
        listening = await self.environment.loop.create_server(make, host, port, backlog=1024)
        self._listening.append(listening)
        return [each.getsockname()[:2] for each in listening.sockets]

    async def stop(self) -> None:
        """Close the ports and every connection."""
        for timer in (self._ticker, self._memory_watch):
            if timer is not None:
                timer.cancel()
        for each in self._listening:
            each.close()
        close_each(self.environment.loop, "server", [("connection", protocol.stop) for protocol in self._protocols])
        for each in self._listening:
            await each.wait_closed()

    def sessions(self) -> list[Session]:
        """Return the sessions of all connections."""
        return [protocol.session for protocol in self._protocols]

    @property
    def connections_limit(self) -> Limit:
        """Limit that determines the number of accepted connections."""
        configured = self.environment.config.maxConcurrentConnections
        return Limit.OPEN_FILES if self.connections_max < configured else Limit.CONNECTIONS

    def short_buffer(self, size: int) -> memoryview:
        """Return a buffer for a read of ``size`` bytes, less than READ_BYTES.

        A period of reduced reads counts as one hit of the limit. It ends when no read was reduced between two checks.
        """
        if not self._had_short_reads:
            self.environment.limit_hits.hit(Limit.PUBLISH_BUFFER)
        self._had_short_reads = self._has_short_reads = True
        return self.buffer[:size]

    def admit(self, protocol: ServerProtocol) -> bool:
        """Add a connection; return whether it is within the limit."""
        if len(self._protocols) >= self.connections_max:
            return False
        self._protocols[protocol] = None
        return True

    def forget(self, protocol: ServerProtocol) -> None:
        """Remove a connection."""
        self._protocols.pop(protocol, None)

    def _watch_memory(self) -> None:
        """Close the connections of clients that occupy memory that others wait for, and make no progress."""
        loop, memory, now = self.environment.loop, self.environment.memory, self.environment.clock.monotonic()
        stalled = memory.stalled(now)
        self._had_short_reads, self._has_short_reads = self._has_short_reads, False
        if stalled:
            for protocol in [each for each in self._protocols if each.session.account in stalled]:
                protocol.drop_stalled(Limit.PUBLISH_BUFFER)
        if memory.sending.has_waiting:
            for protocol in [each for each in self._protocols if each.has_stalled_reading(now)]:
                protocol.drop_stalled(Limit.SEND_BUFFERS)
            memory.sending.admit_overdue(now)
        self._memory_watch = loop.call_later(MEMORY_WATCH_INTERVAL_S, self._watch_memory)

    def _tick(self) -> None:
        """Send keep-alives, in slices: thousands of connections may be due at the same time."""
        now = self.environment.clock.monotonic()
        self.environment.sliced.start(object(), tuple(self._protocols), partial(self._tick_one, now))
        self._ticker = self.environment.loop.call_later(
            self.environment.config.keepAliveIntervalSeconds / 4, self._tick
        )

    def _tick_one(self, now: float, protocol: ServerProtocol) -> None:
        if protocol in self._protocols:  # else it was closed meanwhile
            protocol.tick(now)
