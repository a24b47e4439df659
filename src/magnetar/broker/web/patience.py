"""Timeout of REST clients: for sending a request, and for reading the answer."""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """The side that must act next on a connection."""

    WAITING = auto()
    """The client: its request is incomplete."""
    WORKING = auto()
    """The broker: its answer is pending."""
    READING = auto()
    """The client: it has not read the whole answer."""


class Patience:
    """Measures the time that a client takes on one connection.

    The time of a request starts at its first byte, so single bytes do not extend it. The time of an answer has no limit
    while the client reads it.
    """

    def __init__(self, timeout_s: float, now: float) -> None:
        """Start at ``now``, in monotonic seconds."""
        self._timeout_s = timeout_s
        self._since = now
        self._seen: tuple[Phase, int] = Phase.WAITING, 0
        self._unsent = 0

    def is_over(self, now: float, phase: Phase, requests: int, unsent: int) -> bool:
        """Return whether the client exceeded ``timeout_s``. Call it periodically.

        ``requests`` is the number of requests received on the connection, ``unsent`` the bytes of unsent answers.
        """
        has_read = phase is Phase.READING and unsent < self._unsent
        if phase is Phase.WORKING or has_read or (phase, requests) != self._seen:
            self._since = now
        self._seen, self._unsent = (phase, requests), unsent
        return now - self._since >= self._timeout_s
