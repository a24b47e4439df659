"""What all sessions of an instance share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS

if TYPE_CHECKING:
    from magnetar.lookup.metrics import Metrics
    from magnetar.lookup.options import LookupOptions
    from magnetar.lookup.questions import Questions


class AnySession(Protocol):
    """One connection of a client."""

    def tick(self, now: float) -> None:
        """Send a keep-alive; disconnect a silent peer."""
        ...

    def close(self) -> None:
        """Close after all written answers are sent."""
        ...


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
        self._sessions: dict[AnySession, None] = {}

    def admit(self, session: AnySession) -> bool:
        """Add a connection; return whether it is within the limit."""
        if len(self._sessions) >= self.options.connections_max:
            self.metrics.refused_connections.inc()
            return False
        self._sessions[session] = None
        self.metrics.connections.set(len(self._sessions))
        return True

    def forget(self, session: AnySession) -> None:
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
