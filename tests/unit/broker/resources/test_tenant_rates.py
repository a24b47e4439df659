from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from magnetar.broker.resources.tenant_rates import TICK_S, SharedTokens, TenantRates
from magnetar.broker.resources.token_bucket import Rate

if TYPE_CHECKING:
    from collections.abc import Mapping

RATE = 1000.0


def published(wants: Mapping[str, float], connections: Mapping[str, int], seconds: float = 60.0) -> dict[str, float]:
    """Return the rates of tenants that want to publish ``wants`` messages per second, from a number of connections.

    A connection publishes runs of 50 messages, unless its tenant must wait.
    """
    found, chance = SharedTokens(RATE, 0.0), random.Random(1)
    counts = dict.fromkeys(wants, 0)
    for tick in range(int(seconds / TICK_S)):
        now = tick * TICK_S
        order = [tenant for tenant in wants for _ in range(connections.get(tenant, 1))]
        chance.shuffle(order)
        for tenant in order:
            if found.wait_s(tenant, now) == 0.0 and counts[tenant] < wants[tenant] * now:
                found.take(tenant, 50, now)
                counts[tenant] += 50
    return {tenant: count / seconds for tenant, count in counts.items()}


def test_a_tenant_within_the_rate_is_not_delayed() -> None:
    found = SharedTokens(RATE, 0.0)
    for tick in range(1000):
        now = tick * 0.1
        found.take("a", 100, now)
        assert found.wait_s("a", now) == 0.0


def test_greedy_tenants_get_equal_parts_however_many_connections_they_have() -> None:
    found = published({"one": 1e6, "many": 1e6}, {"many": 20})
    assert found["one"] == pytest.approx(RATE / 2, rel=0.1)
    assert found["many"] == pytest.approx(RATE / 2, rel=0.1)


def test_a_tenant_that_wants_less_than_its_part_gets_it_and_leaves_the_rest() -> None:
    found = published({"small": 100, "large": 1e6, "huge": 1e6}, {"huge": 10})
    assert found["small"] == pytest.approx(100, rel=0.05)
    assert found["large"] == pytest.approx(450, rel=0.1)
    assert found["huge"] == pytest.approx(450, rel=0.1)


def test_the_rate_is_kept_in_total() -> None:
    found = published({str(number): 1e6 for number in range(7)}, {}, 60)
    assert sum(found.values()) == pytest.approx(RATE, rel=0.05)


def test_a_small_tenant_waits_a_moment_while_another_is_deep_in_debt() -> None:
    found = SharedTokens(RATE, 0.0)
    found.take("greedy", 100_000, 0.0)
    found.take("small", 10, 0.0)
    assert found.wait_s("small", 0.0) == pytest.approx(0.02)
    assert found.wait_s("small", 0.02) == 0.0
    assert found.wait_s("greedy", 0.02) > 90


def test_unused_tokens_are_kept_for_one_second_only() -> None:
    found = SharedTokens(RATE, 0.0)
    found.take("a", 0, 1000.0)
    found.take("a", RATE, 1000.0)
    assert found.wait_s("a", 1000.0) == 0.0
    found.take("a", 1, 1000.0)
    assert found.wait_s("a", 1000.0) == pytest.approx(1 / RATE)


def test_messages_and_bytes_are_limited_and_topics_of_a_tenant_share_its_part() -> None:
    rates = TenantRates(Rate(0, 1000), 0.0)
    (first, second, other) = [rates.of(tenant) for tenant in ("shop", "shop", "web")]
    assert first is not None
    assert second is not None
    assert other is not None
    first.take(5, 3000, 0.0)
    assert second.wait_s(0.0) == pytest.approx(2.0)
    assert other.wait_s(0.0) == 0.0
    both = TenantRates(Rate(1, 1000), 0.0).of("shop")
    assert both is not None
    both.take(3, 10, 0.0)
    assert both.wait_s(0.0) == pytest.approx(2.0)
    assert TenantRates(Rate(0, 0), 0.0).of("shop") is None
