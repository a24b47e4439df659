"""Rates of messages and bytes, limited by token buckets. Pure: the time is an argument."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from magnetar.base.limits import Limit


class TokenBucket:
    """Tokens that flow in at a constant rate, up to a capacity.

    More tokens may be taken than there are: the debt is paid by the next ones.
    """

    def __init__(self, amount: float, period_s: float, *, now: float) -> None:
        """Create a full bucket that gets ``amount`` tokens per period, and holds as many, at least one."""
        self._set(amount, period_s)
        self._tokens = self._capacity
        self._at = now

    def _set(self, amount: float, period_s: float) -> None:
        assert amount > 0
        assert period_s > 0
        self._per_second = amount / period_s
        self._capacity = max(amount, 1.0)

    def change(self, amount: float, period_s: float, *, now: float) -> None:
        """Change the rate from now on; a debt remains."""
        tokens = self.tokens(now)
        self._set(amount, period_s)
        self._tokens = min(tokens, self._capacity)

    def tokens(self, now: float) -> float:
        """Return the tokens, negative for a debt; time does not run backwards."""
        if now > self._at:
            self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._per_second)
            self._at = now
        return self._tokens

    def take(self, count: float, now: float) -> None:
        """Take tokens, also more than there are."""
        self._tokens = self.tokens(now) - count

    def wait_s(self, now: float) -> float:
        """Return the seconds until there is one token; 0.0 if there is."""
        return max(0.0, (1.0 - self.tokens(now)) / self._per_second)


@dataclass(frozen=True, slots=True)
class Rate:
    """Maximum number of messages and bytes per period; 0 or less: no limit."""

    messages: float
    size: float
    period_s: float = 1.0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.messages > 0 or self.size > 0

    def plus(self, messages_per_s: float, bytes_per_s: float) -> Self:
        """Return the rate with its limits raised by other rates."""
        return type(self)(
            self.messages + messages_per_s * self.period_s if self.messages > 0 else 0,
            self.size + bytes_per_s * self.period_s if self.size > 0 else 0,
            self.period_s,
        )


class PublishLimit(Protocol):
    """A limit of what clients publish."""

    def take(self, messages: int, size: int, now: float) -> None:
        """Count published messages."""
        ...

    def wait_s(self, now: float) -> float:
        """Return the seconds until more may be published; 0.0 if it may."""
        ...

    def reached(self, now: float) -> tuple[Limit, ...]:
        """Return the limits whose hits are counted, while there is no room."""
        ...


class RateLimit:
    """The limit of one rate. What is sent may exceed it; then there is no room until that is made up for."""

    def __init__(self, rate: Rate, *, now: float) -> None:
        """Begin with room for one period."""
        self._messages: TokenBucket | None = None
        self._size: TokenBucket | None = None
        self.change(rate, now=now)

    def change(self, rate: Rate, *, now: float) -> None:
        """Change the rate; what exceeded it before must still be made up for."""
        self._messages = _changed(self._messages, rate.messages, rate.period_s, now)
        self._size = _changed(self._size, rate.size, rate.period_s, now)

    def room(self, now: float, average_size: float) -> int:
        """Return how many messages of a size may be sent now; 0: none before ``wait_s``."""
        room = sys.maxsize if self._messages is None else max(0, int(self._messages.tokens(now)))
        if self._size is not None:
            size = self._size.tokens(now)
            room = min(room, max(1, int(size / average_size)) if size >= 1.0 else 0)
        return room

    def take(self, messages: int, size: int, now: float) -> None:
        """Count messages that are sent."""
        if self._messages is not None:
            self._messages.take(messages, now)
        if self._size is not None:
            self._size.take(size, now)

    def wait_s(self, now: float) -> float:
        """Return the seconds until there is room; 0.0 if there is."""
        return max((bucket.wait_s(now) for bucket in (self._messages, self._size) if bucket is not None), default=0.0)

    def reached(self, now: float) -> tuple[Limit, ...]:
        """Return nothing: the statistics of the topic count."""
        del now
        return ()


def followed(limit: RateLimit | None, rate: Rate, now: float) -> RateLimit | None:
    """Return the limit for a changed rate: the same one if both have limits; None if the rate has none."""
    if limit is not None:
        limit.change(rate, now=now)  # also a limit that ends, so that nobody waits for it any more
    if not rate.is_limited:
        return None
    return limit or RateLimit(rate, now=now)


def _changed(bucket: TokenBucket | None, amount: float, period_s: float, now: float) -> TokenBucket | None:
    if amount <= 0:
        return None
    if bucket is None:
        return TokenBucket(amount, period_s, now=now)
    bucket.change(amount, period_s, now=now)
    return bucket
