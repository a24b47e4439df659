"""The publish rate of the whole broker, which tenants share fairly. Pure: the time is an argument.

What a tenant publishes beyond the rate is a debt, and its connections are not read until the debt is paid. New tokens
pay the debts of all tenants in equal parts. So a tenant that publishes less than an equal part is hardly delayed by one
that publishes more, however many connections that one has. Tokens that nobody owes are kept for one period, and
everyone may use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from magnetar.broker.resources.token_bucket import Rate

TICK_S: Final = 0.01
"""Seconds between two distributions of new tokens: a distribution looks at each debt."""


class SharedTokens:
    """Tokens of one unit, messages or bytes, that flow in at a constant rate."""

    def __init__(self, per_second: float, now: float) -> None:
        """Create it with the tokens of one second, and without debts."""
        assert per_second > 0
        self._per_second = per_second
        self._free = per_second
        """Tokens that nobody owes; 0 while there are debts."""
        self._debts: dict[str, float] = {}
        """By tenant; each is above 0."""
        self._distributed_at = now

    def take(self, tenant: str, count: float, now: float) -> None:
        """Take tokens, also more than there are."""
        self._distribute(now)
        free = min(count, self._free)
        self._free -= free
        if count > free:
            self._debts[tenant] = self._debts.get(tenant, 0.0) + count - free

    def wait_s(self, tenant: str, now: float) -> float:
        """Return the maximum seconds until the debt of a tenant is paid; 0.0 if it has none."""
        self._distribute(now)
        debt = self._debts.get(tenant)
        return 0.0 if debt is None else debt * len(self._debts) / self._per_second

    def _distribute(self, now: float) -> None:
        if now < self._distributed_at + TICK_S:
            return
        tokens = (now - self._distributed_at) * self._per_second
        self._distributed_at = now
        owing = sorted(self._debts.items(), key=lambda each: each[1])
        for number, (tenant, debt) in enumerate(owing):
            paid = min(debt, tokens / (len(owing) - number))
            tokens -= paid
            if paid < debt:
                self._debts[tenant] = debt - paid
            else:
                del self._debts[tenant]
        self._free = min(self._per_second, self._free + tokens)


class TenantLimit:
    """The limit of one tenant, as producers use it."""

    def __init__(self, tenant: str, tokens: tuple[SharedTokens | None, SharedTokens | None]) -> None:
        """Create the limit of ``tenant``, which shares tokens for messages and for bytes; None: no limit."""
        self._tenant = tenant
        self._messages, self._bytes = tokens

    def take(self, messages: int, size: int, now: float) -> None:
        """Count published messages."""
        for tokens, count in ((self._messages, messages), (self._bytes, size)):
            if tokens is not None:
                tokens.take(self._tenant, count, now)

    def wait_s(self, now: float) -> float:
        """Return the maximum seconds until the tenant may publish again; 0.0 if it may."""
        limits = [tokens for tokens in (self._messages, self._bytes) if tokens is not None]
        return max((tokens.wait_s(self._tenant, now) for tokens in limits), default=0.0)

    def reached(self, now: float) -> tuple[Limit, ...]:
        """Return the limits because of which the tenant must wait."""
        kinds = ((self._messages, Limit.PUBLISHED_MESSAGES), (self._bytes, Limit.PUBLISHED_BYTES))
        return tuple(limit for tokens, limit in kinds if tokens is not None and tokens.wait_s(self._tenant, now) > 0)


class TenantRates:
    """The publish rate of the broker."""

    def __init__(self, rate: Rate, now: float) -> None:
        """Share ``rate``; the tokens of one second are free at first."""
        assert rate.period_s == 1.0
        self._is_limited = rate.is_limited
        self._tokens = (_tokens(rate.messages, now), _tokens(rate.size, now))

    def of(self, tenant: str) -> TenantLimit | None:
        """Return the limit of a tenant, which is the same for all of its topics; None: there is none."""
        return TenantLimit(tenant, self._tokens) if self._is_limited else None


def _tokens(per_second: float, now: float) -> SharedTokens | None:
    return SharedTokens(per_second, now) if per_second > 0 else None
