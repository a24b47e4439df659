"""The listening socket of the binary protocol, and what its sessions share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS
from magnetar.lookup.session import LookupSession

if TYPE_CHECKING:
    from magnetar.lookup.metrics import Metrics
    from magnetar.lookup.options import LookupOptions
    from magnetar.lookup.questions import Questions


class Shared:
    """What all sessions of an instance share. Used on the event loop's thread."""

    keep_alive_s = KEEP_ALIVE_INTERVAL_SECONDS

    def __init__(self, options: LookupOptions, questions: Questions, metrics: Metrics) -> None:
        """Begin without sessions."""
        self.options = options
        self.questions = questions
        self.metrics = metrics
        self.known = metrics.requests.labels("lookup", "known")
        """Lookups whose answer was known."""
        self._sessions: dict[LookupSession, None] = {}

    def admit(self, session: LookupSession) -> bool:
        """Add a connection; return whether it is within the limit."""
        if len(self._sessions) >= self.options.connections_max:
            self.metrics.refused_connections.inc()
            return False
        self._sessions[session] = None
        self.metrics.connections.set(len(self._sessions))
        return True

    def forget(self, session: LookupSession) -> None:
        """Remove a connection."""
        self._sessions.pop(session, None)
        self.metrics.connections.set(len(self._sessions))

    def tick(self, now: float) -> None:
        """Keep the connections alive."""
        for session in tuple(self._sessions):
            session.tick(now)

    def close(self) -> None:
        """Close all connections; their clients connect to another instance."""
        for session in tuple(self._sessions):
            session.close()


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
