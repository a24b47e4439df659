"""Handshakes of TLS with mutated bytes."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Final

from tests.hostile.credentials.mutations import mutated
from tests.kit.child import LOOPBACK

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.kit.certificates import Issued

TIMEOUT_S: Final = 15.0
"""Longer than the broker waits for the rest of a handshake."""

_READ_BYTES: Final = 16_384

_HEAD_BYTES: Final = 5
"""Bytes of a record before its content."""

_PATIENCE_S: Final = 1.0
"""Seconds after which the broker is taken to wait for more bytes."""

_FLIGHTS_MAX: Final = 6


class Contexts:
    """Contexts of clients that trust the broker, with and without a certificate of their own."""

    def __init__(self, trust: str, issued: Issued) -> None:
        """Create them; ``issued`` is a certificate that the broker accepts."""
        self.all: list[ssl.SSLContext] = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for has_certificate in (False, True):
                context = ssl.create_default_context(cafile=trust)
                context.minimum_version = context.maximum_version = version
                if has_certificate:
                    context.load_cert_chain(issued.certificate, issued.key)
                self.all.append(context)


def shake(
    port: int, context: ssl.SSLContext, request: bytes, mutation: tuple[random.Random, int] | None = None
) -> tuple[str, bytes]:
    """Make a handshake; return the outcome, and the answer to the ``request``, which follows a complete handshake.

    ``mutation`` has the random numbers, and the number of the flight of the client that is mutated, from 0.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=LOOPBACK)
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as plain:
        for number in range(_FLIGHTS_MAX):
            is_complete, failure = _step(tls)
            data, is_mutated = outgoing.read(), mutation is not None and number == mutation[1]
            if mutation is not None and is_mutated:
                data = mutated(data, mutation[0])
            try:
                plain.sendall(data)
                if failure:
                    return failure, b""
                if is_complete:
                    return "complete", _ask(plain, tls, incoming, outgoing, request)
                received = _received(plain, is_whole=not is_mutated or is_whole(data, is_hello=number == 0))
            except OSError:
                return "closed", b""
            if not received:
                return "closed", b""
            incoming.write(received)
    return "endless", b""


def send_raw(port: int, parts: Sequence[bytes]) -> str:
    """Send bytes that are no handshake at all; return the outcome."""
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as plain:
        try:
            for part in parts:
                plain.sendall(part)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(_READ_BYTES):
                pass
        except OSError:
            pass
    return "closed"


def hello(context: ssl.SSLContext) -> bytes:
    """Return a ClientHello in its record."""
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=LOOPBACK)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def is_whole(records: bytes, *, is_hello: bool) -> bool:
    """Return whether the broker can go on with records, and need not wait for more."""
    rest = records
    while rest:
        size = _HEAD_BYTES + int.from_bytes(rest[3:_HEAD_BYTES], "big")
        if len(rest) < max(size, _HEAD_BYTES):
            return False
        rest = rest[size:]
    content = records[_HEAD_BYTES:]
    return bool(records) and (not is_hello or len(content) >= 4 + int.from_bytes(content[1:4], "big"))


def _received(plain: socket.socket, *, is_whole: bool) -> bytes:
    """Return what the broker sends. It need not wait for bytes that never come."""
    if is_whole:
        plain.settimeout(_PATIENCE_S)
        try:
            return plain.recv(_READ_BYTES)
        except TimeoutError:
            plain.settimeout(TIMEOUT_S)
    plain.shutdown(socket.SHUT_WR)
    return plain.recv(_READ_BYTES)


def _step(tls: ssl.SSLObject) -> tuple[bool, str]:
    """Continue; return whether the handshake is complete, and the failure that this side has found."""
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False, ""
    except ssl.SSLError as error:
        return False, f"alert or damage: {error.reason}"
    return True, ""


def _ask(
    plain: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, request: bytes
) -> bytes:
    """Send the request; return the beginning of the answer."""
    plain.settimeout(TIMEOUT_S)
    tls.write(request)
    plain.sendall(outgoing.read())
    while True:
        try:
            return tls.read(_READ_BYTES)
        except ssl.SSLWantReadError:
            received = plain.recv(_READ_BYTES)
            if not received:
                return b""
            incoming.write(received)
        except ssl.SSLError:
            return b""
