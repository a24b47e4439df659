"""Counters of published messages."""

from __future__ import annotations

from magnetar.base.rates import Rates


class Arrivals:
    """Messages that were published to a topic since it was loaded, by all producers or from one other cluster."""

    __slots__ = ("bytes_in", "messages_at_check", "messages_in", "rates")

    def __init__(self) -> None:
        """Start at 0."""
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_at_check = 0
        """Messages at the last check whether the topic is inactive."""
        self.rates = Rates(2)
        """Rates of messages and bytes."""
