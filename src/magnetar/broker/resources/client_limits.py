"""Limits of what one address or one role may occupy, and of the lookups in flight. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit


class ConnectionLimits:
    """The open connections by address and by role. A maximum of 0 is no limit."""

    def __init__(self, per_address: int, per_role: int, exempt: frozenset[str] = frozenset()) -> None:
        """Begin without connections; the roles ``exempt`` may have any number."""
        self._per_address = per_address
        self._per_role = per_role
        self._exempt = exempt
        self._addresses: Counter[str] = Counter()
        self._roles: Counter[str] = Counter()

    def admits_address(self, address: str) -> bool:
        """Count a connection from an IP address; False, and it is not counted, if there are too many."""
        return _admits(self._addresses, _normal(address), self._per_address)

    def admits_role(self, role: str) -> bool:
        """Count a connection of a role; False, and it is not counted, if there are too many."""
        return role in self._exempt or _admits(self._roles, role, self._per_role)

    def left_address(self, address: str) -> None:
        """Remove a connection that was admitted."""
        _remove(self._addresses, _normal(address))

    def left_role(self, role: str) -> None:
        """Remove a connection that was admitted."""
        if role not in self._exempt:
            _remove(self._roles, role)


class LookupsInFlight:
    """The lookups of all clients that wait for the disk or for another cluster."""

    def __init__(self, maximum: int) -> None:
        """Begin without lookups."""
        self._maximum = maximum
        self._count = 0

    def __enter__(self) -> None:
        """Count a lookup, which ends with the block; raises RequestError if there are too many."""
        self.begin()

    def __exit__(self, *_: object) -> None:
        """Remove the lookup."""
        self.end()

    def begin(self) -> None:
        """Count a lookup, which must be ended; raises RequestError if there are too many."""
        self.check()
        self._count += 1

    def end(self) -> None:
        """Remove a lookup."""
        assert self._count > 0
        self._count -= 1

    def check(self) -> None:
        """Raise RequestError if there is no room for a further lookup."""
        if self._count >= self._maximum:
            message = f"Failed due to too many pending lookup requests ({Limit.LOOKUPS})"
            raise RequestError(ServerError.TooManyRequests, message, Limit.LOOKUPS)


def _admits(counts: Counter[str], name: str, maximum: int) -> bool:
    if 0 < maximum <= counts[name]:
        return False
    counts[name] += 1
    return True


def _remove(counts: Counter[str], name: str) -> None:
    assert counts[name] > 0
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


def _normal(address: str) -> str:
    """Return one form of an address, also of one that a socket for both families states as IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)
