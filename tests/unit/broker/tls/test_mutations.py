"""Handshakes with altered bytes, and data in all sizes, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from typing import TYPE_CHECKING, cast

import pytest

from magnetar.base.real import SystemClock
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.tls.connection import HANDSHAKE_READ_BYTES, SecurePort, TlsProtocol
from magnetar.broker.tls.handshakes import Handshakes
from tests.kit.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from magnetar.broker.loop.turns import LoopTurns

MUTATIONS = 100
HEADER_BYTES = 5
"""The header of a record, whose version is not verified."""


class AtOnce:
    """Turns that do work at once."""

    def soon(self, work: Callable[[], None], _share: object) -> None:
        work()


class Raw(asyncio.Transport):
    """A socket that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 40_000)})
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        """Read nothing anyway."""

    def resume_reading(self) -> None:
        """Read nothing anyway."""


class Echo(asyncio.Protocol):
    """The protocol above TLS: it sends back what it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Pair:
    """A client and the broker's side of its connection."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.handshakes = Handshakes(8, 10.0, LimitHits())
        buffer, turns = memoryview(bytearray(HANDSHAKE_READ_BYTES)), cast("LoopTurns", AtOnce())
        port = SecurePort("p", lambda: server, self.handshakes, turns, SystemClock(), buffer, lambda _: None)
        self.opened: list[Echo] = []
        self.raw, self.tls = Raw(), TlsProtocol(port, self._open)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        self.tls.connection_made(self.raw)

    def _open(self) -> Echo:
        self.opened.append(Echo())
        return self.opened[-1]

    def to_broker(self, data: bytes) -> None:
        while data and not self.raw.is_closed:
            buffer = self.tls.get_buffer(-1)
            part = data[: len(buffer)]
            buffer[: len(part)] = part
            self.tls.buffer_updated(len(part))
            data = data[len(part) :]

    def step(self, change: Callable[[bytes], bytes] = lambda data: data) -> None:
        """Let the client continue its handshake; ``change`` alters what it sends."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.to_broker(change(self.outgoing.read()))
        self.from_broker()

    def from_broker(self) -> None:
        self.incoming.write(self.raw.written)
        self.raw.written = b""


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    directory: Path = tmp_path_factory.mktemp("tls")
    authority = Authority(directory)
    issued = authority.issue("broker")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(issued.certificate, issued.key)
    return server, ssl.create_default_context(cafile=str(authority.trust))


def test_data_of_all_sizes_pass_in_both_directions(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    pair = Pair(*contexts)
    pair.step()
    pair.step()
    assert len(pair.opened) == pair.handshakes.succeeded == 1
    for size in (1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100_000):
        data, received = random.Random(size).randbytes(size), b""
        sent = 0
        while sent < size:
            sent += pair.client.write(data[sent:])
        pair.to_broker(pair.outgoing.read())
        pair.from_broker()
        while len(received) < size:
            received += pair.client.read(size)
        assert received == data
    pair.opened[0].transport.close()
    pair.from_broker()
    assert pair.client.read(1) == b""
    assert pair.raw.is_closed


def test_no_altered_handshake_is_completed(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    chance = random.Random(1)

    def alter(data: bytes, first: int) -> bytes:
        kind, at = chance.randrange(3), chance.randrange(first, len(data))
        if kind == 0:
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        return data[:at] if kind == 1 else data[:at] + chance.randbytes(1 + chance.randrange(40)) + data[at + 1 :]

    def as_it_is(data: bytes) -> bytes:
        return data

    def hello(data: bytes) -> bytes:
        return alter(data, HEADER_BYTES)

    def finished(data: bytes) -> bytes:
        return alter(data, len(data) - 30)

    for number in range(MUTATIONS):
        pair = Pair(*contexts)
        try:
            for change in (hello, as_it_is) if number % 2 else (as_it_is, finished):
                pair.step(change)
        except ssl.SSLError:
            pass  # the client has found out
        assert pair.opened == []
        assert pair.handshakes.succeeded == 0
        pair.tls.connection_lost(None)
        assert pair.handshakes.in_progress == 0
