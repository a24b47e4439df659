"""How long the broker waits for a REST client: to send a request, or to read the answer."""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """Who has to do something next on a connection."""

    WAITING = auto()
    """The client: it has not sent a whole request."""
    WORKING = auto()
    """The broker: it has not answered."""
    READING = auto()
    """The client: it has not read the whole answer."""


class Patience:
    """The time that a client takes on one connection.

    A request counts from its beginning, so a client that sends a byte now and then gains nothing by it. An answer may
    take any time as long as the client goes on reading it.
    """

    def __init__(self, timeout_s: float, now: float) -> None:
        """Begin to wait at ``now``, in seconds of a clock that never goes back."""
        self._timeout_s = timeout_s
        self._since = now
        self._seen: tuple[Phase, int] = Phase.WAITING, 0
        self._unsent = 0

    def is_over(self, now: float, phase: Phase, requests: int, unsent: int) -> bool:
        """Whether the client had ``timeout_s`` for what it has to do. Called regularly.

        ``requests`` is how many requests the connection has brought, and ``unsent`` how many bytes of answers wait.
        """
        has_read = phase is Phase.READING and unsent < self._unsent
        if phase is Phase.WORKING or has_read or (phase, requests) != self._seen:
            self._since = now
        self._seen, self._unsent = (phase, requests), unsent
        return now - self._since >= self._timeout_s
