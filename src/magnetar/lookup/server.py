"""The listening socket of the binary protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.lookup.session import LookupSession

if TYPE_CHECKING:
    from magnetar.lookup.shared import Shared


class LookupServer:
    """The listener."""

    def __init__(self, shared: Shared) -> None:
        """Create a server that does not listen yet."""
        self._shared = shared
        self._listener: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None

    async def start(self) -> int:
        """Listen; return the port. Raises ConfigurationError if that is not possible."""
        loop, options = asyncio.get_running_loop(), self._shared.options
        try:
            self._listener = await loop.create_server(
                lambda: LookupSession(self._shared), options.host, options.port, backlog=1024
            )
        except OSError as error:
            message = f"cannot listen on port {options.port} of {options.host}: {error}\nhint: name another --port"
            raise ConfigurationError(message) from error
        self._tick()
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the listener and all connections."""
        if self._ticker is not None:
            self._ticker.cancel()
        if self._listener is not None:
            self._listener.close()
        self._shared.close()
        if self._listener is not None:
            await self._listener.wait_closed()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._shared.tick(loop.time())
        self._ticker = loop.call_later(self._shared.keep_alive_s / 4, self._tick)
