"""A share of the memory that a broker holds for its clients (see ``magnetar.broker.resources.memory``). Pure."""

from __future__ import annotations

SMALL_BYTES = 64 * 1024
"""Bytes of a share that a connection may hold whatever others hold; less than one read of a socket may bring."""

STALL_BYTES = 64 * 1024
"""Bytes that a client has to send, or read, in time while others wait for the memory that it holds."""


class Share:
    """Bytes of one kind that are held, and how many may be.

    ``used`` exceeds ``limit`` by at most SMALL_BYTES and one read for each connection.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        """Allow ``limit`` bytes; none are held."""
        self.limit = limit
        self.used = 0

    @property
    def room(self) -> int:
        """Bytes that one connection may hold now: as many as are free, and at least SMALL_BYTES."""
        return max(self.limit - self.used, SMALL_BYTES)
