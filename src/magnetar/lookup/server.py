"""The listening socket of the binary protocol."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.lookup.session import LookupSession
from magnetar.security.exposure import ListeningPort

if TYPE_CHECKING:
    from magnetar.lookup.options import LookupOptions
    from magnetar.lookup.shared import Shared


class LookupServer:
    """The listener."""

    def __init__(self, shared: Shared) -> None:
        """Create a server that does not listen yet."""
        self._shared = shared
        self._listeners: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self.tls_port = 0
        """The port with TLS, once it listens on one."""
        self.listening: list[ListeningPort] = []
        """The open ports."""

    async def start(self) -> int:
        """Listen; return the port. Raises ConfigurationError if that is not possible."""
        options = self._shared.options
        port = await self._listen(options.port, "--port")
        if options.tls_port is not None:
            self.tls_port = await self._listen(options.tls_port, "--tls-port", await asyncio.to_thread(_tls, options))
        self._tick()
        return port

    async def stop(self) -> None:
        """Close the listener and all connections."""
        if self._ticker is not None:
            self._ticker.cancel()
        for listener in self._listeners:
            listener.close()
        self._shared.close()
        for listener in self._listeners:
            await listener.wait_closed()

    async def _listen(self, port: int, option: str, tls: ssl.SSLContext | None = None) -> int:
        loop, host = asyncio.get_running_loop(), self._shared.options.host
        try:
            listener = await loop.create_server(lambda: LookupSession(self._shared), host, port, backlog=1024, ssl=tls)
        except OSError as error:
            message = f"cannot listen on port {port} of {host}: {error}\nhint: name another {option}"
            raise ConfigurationError(message) from error
        self._listeners.append(listener)
        names = [each.getsockname() for each in listener.sockets]
        number = int(names[0][1])
        self.listening.append(ListeningPort(option, number, tuple(name[0] for name in names)))
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
