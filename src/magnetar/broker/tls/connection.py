"""TLS between a socket and the protocol of its port.

asyncio has such a layer, too. This one handshakes in turns of the event loop, so that many clients at once do not stall
it, and within limits. It holds no unsent data of its own, so the sizes of send buffers stay true, and it reads into the
buffer of the protocol, which decides the size of reads.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from magnetar.broker.loop.turns import LoopTurns, Share
from magnetar.broker.tls.plain_bytes import remedy_for
from magnetar.security.audit import AuditEvent, Kind, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.limits import Limit
    from magnetar.base.world import Clock
    from magnetar.broker.tls.handshakes import Handshakes

log = structlog.get_logger(__name__)

HANDSHAKE_READ_BYTES: Final = 4096
"""Maximum bytes that are read at once before the handshake is complete, and kept of a client that waits for it."""

_NO_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
"""Reason of OpenSSL."""

RECORD_BYTES: Final = 16 * 1024
"""Maximum bytes of data in a record of TLS."""


@dataclass(frozen=True, slots=True)
class SecurePort:
    """A port with TLS."""

    name: str
    """Its setting."""
    context: Callable[[], ssl.SSLContext]
    """Returns the context of new connections."""
    handshakes: Handshakes
    turns: LoopTurns
    clock: Clock
    buffer: memoryview
    """For reads, whose bytes are decrypted in the same turn of the loop; at least HANDSHAKE_READ_BYTES."""
    record: Callable[[AuditEvent], None]
    """Gets the event of each client that was refused because of its certificate."""

    def protocol(self, make: Callable[[], asyncio.BaseProtocol]) -> TlsProtocol:
        """Return the protocol of a new connection; ``make`` returns the one above TLS after the handshake."""
        return TlsProtocol(self, make)


class TlsProtocol(asyncio.BufferedProtocol):
    """The server's side of one connection."""

    def __init__(self, port: SecurePort, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """Create the protocol; it is not connected yet."""
        self._port = port
        self._make = make
        self._raw: asyncio.Transport
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        """None before the handshake begins."""
        self._inner: asyncio.Protocol | None = None
        """The protocol above TLS; None until the handshake is complete."""
        self._get_inner_buffer: Callable[[int], memoryview] | None = None
        self._reading_into = port.buffer
        self._first_bytes = b""
        self._share = Share()
        self.is_paused = False
        """Whether the protocol above TLS has paused reading."""

    # -- the socket ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a place among the handshakes."""
        self._raw = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._port.handshakes.arrived(self, self._port.clock.monotonic())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        if self._inner is None:
            self._reading_into = self._port.buffer[:HANDSHAKE_READ_BYTES]
        elif self._get_inner_buffer is not None:
            self._reading_into = self._get_inner_buffer(sizehint)
        else:
            self._reading_into = self._port.buffer
        return self._reading_into

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt bytes that were read."""
        data = self._reading_into[:nbytes]
        self._incoming.write(data)
        if self._inner is not None:
            self._deliver(self._inner)
            return
        self._first_bytes = self._first_bytes or data[:8].tobytes()
        self._raw.pause_reading()
        if self._tls is not None:
            self._continue()

    def eof_received(self) -> bool:
        """Close a half-closed socket, which the protocols do not use."""
        return False

    def pause_writing(self) -> None:
        """Pass on that the socket's send buffer is full."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the socket's send buffer has room."""
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the handshake, or the protocol above TLS."""
        if self._inner is None:
            self._port.handshakes.ended(self, self._port.clock.monotonic(), is_complete=False)
        else:
            self._inner.connection_lost(exc)

    # -- the handshake ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """See Handshake."""
        self._tls = self._port.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        if self._incoming.pending:
            self._continue()

    def give_up(self, limit: Limit) -> None:
        """See Handshake."""
        log.warning("tls_handshake_ended", port=self._port.name, address=self._address, limit=limit.value)
        self._raw.abort()

    def _continue(self) -> None:
        self._port.handshakes.received(self)
        self._port.turns.soon(self._handshake, self._share)

    def _handshake(self) -> None:
        """Continue the handshake with the bytes that were read."""
        if self._raw.is_closing() or self._tls is None:
            return
        now = self._port.clock.monotonic
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            self._port.handshakes.handled(self, now())
            self._resume()
        except ssl.SSLError as error:
            self._fail(error)
        else:
            self._port.handshakes.ended(self, now(), is_complete=True)
            self._send()
            self._open()

    def _open(self) -> None:
        self._inner = inner = cast("asyncio.Protocol", self._make())
        self._get_inner_buffer = getattr(inner, "get_buffer", None)
        inner.connection_made(TlsTransport(self, self._raw))
        if not self._raw.is_closing():
            self._deliver(inner)  # data may have followed the handshake in the same read
        if not self.is_paused:
            self._resume()

    def _fail(self, error: ssl.SSLError) -> None:
        """Close the connection after an alert for the client."""
        remedy = remedy_for(self._first_bytes)
        facts = {"remedy": remedy} if remedy else {}
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        log.warning("tls_handshake_failed", port=self._port.name, address=self._address, reason=reason, **facts)
        if isinstance(error, ssl.SSLCertVerificationError) or reason == _NO_CERTIFICATE:
            self._port.record(
                AuditEvent(Kind.AUTHENTICATION, Result.DENIED, "tls", address=self._address, reason=str(reason))
            )
        self._send()
        self._raw.close()

    # -- data ---------------------------------------------------------------------------------------------------------

    def _deliver(self, inner: asyncio.Protocol) -> None:
        """Pass on all data that has arrived."""
        tls, parts, is_end = cast("ssl.SSLObject", self._tls), [], False
        try:
            while not is_end:
                part = tls.read(RECORD_BYTES)
                if part:
                    parts.append(part)
                is_end = not part
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            is_end = True
            if not isinstance(error, ssl.SSLZeroReturnError):
                log.warning("tls_failed", port=self._port.name, address=self._address, reason=error.reason)
        self._send()
        if parts:
            inner.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if is_end:
            self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send data."""
        if not data or self._raw.is_closing():
            return
        tls, size = cast("ssl.SSLObject", self._tls), len(data)
        try:
            sent = tls.write(data)
            if sent < size:
                view = memoryview(data)
                while sent < size:  # one record each
                    sent += tls.write(view[sent:])
        except ssl.SSLError as error:
            log.warning("tls_failed", port=self._port.name, address=self._address, reason=error.reason)
            self._raw.abort()
        else:
            self._send()

    def close(self) -> None:
        """Send all data and the end of the data, then close."""
        if not self._raw.is_closing():
            with suppress(ssl.SSLError):  # the client's end of data does not matter
                cast("ssl.SSLObject", self._tls).unwrap()
            self._send()
            self._raw.close()

    def extra_info(self, name: str) -> Any:  # noqa: ANN401 - as asyncio's
        """Return information about the encryption; see asyncio.BaseTransport.get_extra_info."""
        tls = self._tls
        if tls is None:
            return None
        match name:
            case "ssl_object":
                return tls
            case "peercert":
                return tls.getpeercert()
            case "sslcontext":
                return tls.context
            case "cipher":
                return tls.cipher()
            case _:
                return None

    @property
    def _address(self) -> str:
        host, port = (self._raw.get_extra_info("peername") or ("unknown", 0))[:2]
        return f"/{host}:{port}"

    def _send(self) -> None:
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    def _resume(self) -> None:
        if not self._raw.is_closing():
            self._raw.resume_reading()


class TlsTransport(asyncio.Transport):
    """The transport of the protocol above TLS. Sizes are those of the encrypted data."""

    def __init__(self, tls: TlsProtocol, raw: asyncio.Transport) -> None:
        """Create the transport of an open connection."""
        super().__init__()
        self._tls = tls
        self._raw = raw

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as in asyncio
        """Return information about the encryption, or about the socket."""
        found = self._tls.extra_info(name)
        return self._raw.get_extra_info(name, default) if found is None else found

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data."""
        self._tls.write(data)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._raw.is_closing()

    def close(self) -> None:
        """Send all data, then close."""
        self._tls.close()

    def abort(self) -> None:
        """Close at once."""
        self._raw.abort()

    def pause_reading(self) -> None:
        """Stop reading."""
        self._tls.is_paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._tls.is_paused = False
        self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the numbers of unsent bytes at which writing pauses and resumes."""
        self._raw.set_write_buffer_limits(high, low)
