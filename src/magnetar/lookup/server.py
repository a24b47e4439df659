"""The ports of the binary protocol."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.lookup.session import LookupSession
from magnetar.security.exposure import ListeningPort
from magnetar.wire.listeners import BINARY_TLS

if TYPE_CHECKING:
    from magnetar.lookup.options import LookupOptions
    from magnetar.lookup.shared import Shared


class LookupServer:
    """The ports, and the connections of clients."""

    def __init__(self, shared: Shared) -> None:
        """Create a server that does not listen yet."""
        self._shared = shared
        self._listening: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self.tls_port = 0
        """The port with TLS, once it listens on one."""
        self.ports: list[ListeningPort] = []
        """The open ports."""

    async def start(self) -> int:
        """Listen; return the port. Raises ConfigurationError if that is not possible."""
        options = self._shared.options
        tls = None if options.tls_certificate is None else await asyncio.to_thread(_tls, options)
        port = await self._listen(options.host, options.port, "--port")
        if options.tls_port is not None:
            self.tls_port = await self._listen(options.host, options.tls_port, "--tls-port", tls)
        for each in options.bind_addresses:
            secure = tls if each.scheme == BINARY_TLS else None
            await self._listen(each.host, each.port, "--bind-address", secure, each.listener)
        self._tick()
        return port

    async def stop(self) -> None:
        """Close the ports and all connections."""
        if self._ticker is not None:
            self._ticker.cancel()
        for each in self._listening:
            each.close()
        self._shared.close()
        for each in self._listening:
            await each.wait_closed()

    async def _listen(
        self, host: str, port: int, option: str, tls: ssl.SSLContext | None = None, listener: str = ""
    ) -> int:
        loop, session = asyncio.get_running_loop(), partial(LookupSession, self._shared, listener)
        try:
            listening = await loop.create_server(session, host, port, backlog=1024, ssl=tls)
        except OSError as error:
            message = f"cannot listen on port {port} of {host}: {error}\nhint: name another {option}"
            raise ConfigurationError(message) from error
        self._listening.append(listening)
        names = [each.getsockname() for each in listening.sockets]
        number = int(names[0][1])
        self.ports.append(ListeningPort(option, number, tuple(name[0] for name in names)))
        return number

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._shared.tick(loop.time())
        self._ticker = loop.call_later(self._shared.keep_alive_s / 4, self._tick)


def _tls(options: LookupOptions) -> ssl.SSLContext:
    """Read the certificate; raises ConfigurationError if it cannot be used."""
    assert options.tls_certificate is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls_certificate, options.tls_key)
    except OSError as error:  # an SSLError is one, too
        reason = error.strerror or error
        message = f"cannot use the certificate {options.tls_certificate} with the key {options.tls_key}: {reason}"
        raise ConfigurationError(message) from error
    return context
