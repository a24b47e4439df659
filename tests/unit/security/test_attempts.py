from __future__ import annotations

import random

import pytest

from magnetar.security import attempts as module
from magnetar.security.attempts import FAILURES_AT_ONCE, WAIT_MAX_S, Attempts, source_of


def fail(attempts: Attempts, address: str, now: float) -> float | None:
    """Make an attempt that fails at once; return how long it waited, None if it was refused."""
    attempt = attempts.begin(address, now)
    if attempt is None:
        return None
    attempts.failed(attempt, now + attempt.wait_s)
    return attempt.wait_s


def test_the_first_failures_are_not_slowed_down_and_then_all_attempts_are() -> None:
    attempts = Attempts()
    assert [fail(attempts, "10.0.0.1", 0.0) for _ in range(FAILURES_AT_ONCE)] == [0.0] * FAILURES_AT_ONCE
    assert fail(attempts, "10.0.0.1", 0.0) == 1.0
    assert fail(attempts, "10.0.0.2", 0.0) == 0.0


def test_attempts_that_would_wait_too_long_are_refused() -> None:
    attempts = Attempts()
    begun = [attempts.begin("10.0.0.1", 0.0)]
    for _ in range(FAILURES_AT_ONCE):
        fail(attempts, "10.0.0.1", 0.0)
    begun = [attempts.begin("10.0.0.1", 0.0) for _ in range(10)]
    waits = [attempt.wait_s for attempt in begun if attempt is not None]
    assert waits == [1.0, 2.0, 3.0, 4.0, WAIT_MAX_S]
    assert begun[5:] == [None] * 5


def test_the_rate_of_failures_is_limited_whatever_their_order() -> None:
    attempts, chance, made, now = Attempts(), random.Random(1), 0, 0.0
    for _ in range(5000):
        made += fail(attempts, "10.0.0.1", now) is not None
        now += chance.random() / 10
    assert made <= FAILURES_AT_ONCE + now + WAIT_MAX_S


def test_a_successful_client_is_not_slowed_down() -> None:
    attempts = Attempts()
    for _ in range(100):
        attempt = attempts.begin("10.0.0.1", 0.0)
        assert attempt is not None
        assert attempt.wait_s == 0.0
        attempts.succeeded(attempt, 0.0)


def test_success_gives_back_what_the_attempt_took() -> None:
    attempts = Attempts()
    fail(attempts, "10.0.0.1", 0.0)
    for _ in range(100):
        attempt = attempts.begin("10.0.0.1", 0.0)
        assert attempt is not None
        assert attempt.wait_s == 0.0
        attempts.succeeded(attempt, 0.0)


def test_an_address_recovers() -> None:
    attempts = Attempts()
    for _ in range(20):
        fail(attempts, "10.0.0.1", 0.0)
    assert [fail(attempts, "10.0.0.1", 60.0) for _ in range(FAILURES_AT_ONCE)] == [0.0] * FAILURES_AT_ONCE


def test_the_number_of_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADDRESSES_MAX", 5)
    attempts = Attempts()
    for number in range(50):
        fail(attempts, f"10.0.0.{number}", 0.0)
    assert len(attempts._sources) == 5


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_a_source_is_an_ipv4_address_or_an_ipv6_network(address: str, source: str) -> None:
    assert source_of(address) == source
