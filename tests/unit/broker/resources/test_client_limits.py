from __future__ import annotations

import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.resources.client_limits import ConnectionLimits, LookupsInFlight


def test_connections_of_an_address_and_of_a_role_are_limited_and_others_are_not_affected() -> None:
    limits = ConnectionLimits(2, 3, frozenset({"root"}))
    assert [limits.admits_address("10.0.0.1") for _ in range(4)] == [True, True, False, False]
    assert limits.admits_address("10.0.0.2")
    limits.left_address("10.0.0.1")
    assert [limits.admits_address("::ffff:10.0.0.1") for _ in range(2)] == [True, False]
    assert [limits.admits_role("alice") for _ in range(5)] == [True, True, True, False, False]
    assert all(limits.admits_role(role) for role in ("bob", *["root"] * 10))
    limits.left_role("alice")
    assert limits.admits_role("alice")


def test_nothing_is_kept_of_those_who_left() -> None:
    limits = ConnectionLimits(0, 0)
    for number in range(100):
        assert limits.admits_address(f"10.0.0.{number}")
        assert limits.admits_role(str(number))
        limits.left_address(f"10.0.0.{number}")
        limits.left_role(str(number))
    assert (len(limits._addresses), len(limits._roles)) == (0, 0)


def test_lookups_in_flight_are_limited() -> None:
    lookups = LookupsInFlight(2)
    lookups.begin()
    lookups.begin()
    with pytest.raises(RequestError, match="too many pending lookup requests") as raised:
        lookups.begin()
    assert (raised.value.code, raised.value.limit) == (ServerError.TooManyRequests, Limit.LOOKUPS)
    lookups.end()
    lookups.begin()
