"""Rates from counters that only grow."""

from __future__ import annotations


class Rates:
    """Messages and bytes per second, between the last two updates."""

    __slots__ = ("_at", "_bytes", "_messages", "bytes_per_second", "messages_per_second")

    def __init__(self) -> None:
        """Start at 0."""
        self._at: float | None = None
        self._messages = 0
        self._bytes = 0
        self.messages_per_second = 0.0
        self.bytes_per_second = 0.0

    @property
    def average_size(self) -> float:
        """Bytes per message; 0.0 without messages."""
        return self.bytes_per_second / self.messages_per_second if self.messages_per_second else 0.0

    def update(self, now: float, messages: int, size: int) -> None:
        """Update with the counters' values at ``now`` (monotonic seconds)."""
        if self._at is not None and now > self._at:
            # A smaller value means that the owner of the counter was created again.
            self.messages_per_second = max(0, messages - self._messages) / (now - self._at)
            self.bytes_per_second = max(0, size - self._bytes) / (now - self._at)
        self._at, self._messages, self._bytes = now, messages, size
