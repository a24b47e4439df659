"""Failed attempts to authenticate, slowed down for each source address.

Each address has a bucket of FAILURES_AT_ONCE failures, refilled with FAILURES_PER_SECOND. A failure takes one out. If
the bucket is empty, attempts of the address wait for the next refill, in order, or are refused if that takes longer
than WAIT_MAX_S. If the address has failed recently, running attempts count as failures, so that parallel ones are not
faster. Clients that do not fail are not slowed down, unless they share an address with one that does.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

FAILURES_AT_ONCE: Final = 10
"""Failures of an address that are answered without a delay."""

FAILURES_PER_SECOND: Final = 1.0
"""Rate of failures of an address beyond FAILURES_AT_ONCE."""

WAIT_MAX_S: Final = 5.0
"""Maximum seconds for which an attempt waits; others are refused at once."""

ADDRESSES_MAX: Final = 10_000
"""Maximum number of addresses with recent failures; beyond it, the one whose last failure is oldest is forgotten."""

_IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that identify a source: a host may choose the others."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that may be made."""

    source: str
    wait_s: float
    """Seconds for which it must wait first."""
    is_counted: bool
    """Whether it counts as a failure already, because its source has failed recently."""


@dataclass(slots=True)
class _Source:
    room: float
    """Failures that are left, below 0 while attempts wait."""
    updated_at: float

    def refill(self, now: float) -> None:
        now = max(now, self.updated_at)
        self.room = min(FAILURES_AT_ONCE, self.room + (now - self.updated_at) * FAILURES_PER_SECOND)
        self.updated_at = now


class Attempts:
    """The recent failures of all sources. Times are monotonic seconds."""

    def __init__(self) -> None:
        """Begin without failures."""
        self._sources: dict[str, _Source] = {}
        """In the order of the last failure."""

    def begin(self, address: str, now: float) -> Attempt | None:
        """Begin an attempt of an IP address, which must be ended; None: it is refused."""
        name = source_of(address)
        source = self._sources.get(name)
        if source is not None:
            source.refill(now)
            if source.room >= FAILURES_AT_ONCE:
                del self._sources[name]
                source = None
        if source is None:
            return Attempt(name, 0.0, is_counted=False)
        wait_s = max(0.0, (1 - source.room) / FAILURES_PER_SECOND)
        if wait_s > WAIT_MAX_S:
            return None
        source.room -= 1
        return Attempt(name, wait_s, is_counted=True)

    def succeeded(self, attempt: Attempt, now: float) -> None:
        """End an attempt that was successful, or was not made."""
        source = self._sources.get(attempt.source) if attempt.is_counted else None
        if source is not None:
            source.refill(now)
            source.room = min(FAILURES_AT_ONCE, source.room + 1)

    def failed(self, attempt: Attempt, now: float) -> None:
        """End an attempt that has failed."""
        source = self._sources.pop(attempt.source, None) or _Source(FAILURES_AT_ONCE, now)
        source.refill(now)
        if not attempt.is_counted:
            source.room = max(0.0, source.room - 1)
        self._sources[attempt.source] = source
        if len(self._sources) > ADDRESSES_MAX:
            del self._sources[next(iter(self._sources))]


def source_of(address: str) -> str:
    """Return the part of an IP address that identifies a source."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
