"""Counts of the connections of the binary protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConnectionCounts:
    """Connections since the start of the broker. Used on the event loop's thread."""

    created: int = 0
    """Accepted sockets, including refused ones."""
    succeeded: int = 0
    """Connections whose CONNECT was answered with CONNECTED."""
    failed: int = 0
    """Connections that were refused because of a limit, or that ended before CONNECTED."""
    closed: int = 0
    """Ended connections."""

    @property
    def active(self) -> int:
        """Number of open connections."""
        return self.created - self.closed
