"""A share of the memory that a broker holds for its clients (see ``magnetar.broker.resources.memory``). Pure."""

from __future__ import annotations

SMALL_BYTES = 64 * 1024
"""Bytes that each connection may hold in any case; less than one read of a socket."""

STALL_BYTES = 64 * 1024
"""Bytes that a client must send or read within a time limit while others wait for its memory."""


class Share:
    """The held bytes of one type of memory, and their limit.

    ``used`` exceeds ``limit`` by at most SMALL_BYTES and one read for each connection.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        """Create an empty share of ``limit`` bytes."""
        self.limit = limit
        self.used = 0

    @property
    def room(self) -> int:
        """Return the bytes that one connection may hold now: the free bytes, at least SMALL_BYTES."""
        return max(self.limit - self.used, SMALL_BYTES)
