"""Token buckets: the long-term rate holds whatever is taken at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.resources.token_bucket import Rate, RateLimit, TokenBucket, followed


@given(
    rate=st.floats(0.5, 1e6),
    period_s=st.sampled_from([1.0, 5.0, 30.0]),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=50),
)
def test_what_is_sent_never_exceeds_the_rate_by_more_than_one_send(
    rate: float, period_s: float, sizes: list[int]
) -> None:
    bucket, now, sent = TokenBucket(rate, period_s, now=0.0), 0.0, 0
    for size in sizes:
        now += bucket.wait_s(now)
        bucket.take(size, now)
        sent += size
    allowed = max(rate, 1.0) + now * rate / period_s
    assert sent - sizes[-1] <= allowed * 1.001 + 1


def test_tokens_do_not_accumulate_beyond_one_period() -> None:
    bucket = TokenBucket(10, 1.0, now=0.0)
    assert bucket.tokens(1000.0) == 10
    bucket.take(30, 1000.0)
    assert bucket.wait_s(1000.0) == pytest.approx(2.1)
    assert bucket.tokens(999.0) == -20, "the time does not run backwards"


def test_a_debt_outlives_a_change_of_the_rate() -> None:
    bucket = TokenBucket(10, 1.0, now=0.0)
    bucket.take(30, 0.0)
    bucket.change(100, 1.0, now=0.0)
    assert bucket.tokens(0.0) == -20
    assert bucket.wait_s(0.0) == pytest.approx(0.21)


def test_room_is_that_of_the_tighter_limit() -> None:
    limit = RateLimit(Rate(10, 1000), now=0.0)
    assert (limit.room(0.0, 50), limit.room(0.0, 200), limit.room(0.0, 5000)) == (10, 5, 1)
    limit.take(1, 1000, 0.0)
    assert limit.room(0.0, 50) == 0
    assert limit.wait_s(0.0) == pytest.approx(0.001)


def test_a_limit_that_ends_keeps_nobody_waiting() -> None:
    limit = followed(None, Rate(1, 0), 0.0)
    assert limit is not None
    limit.take(100, 0, 0.0)
    assert limit.wait_s(0.0) > 90
    assert followed(limit, Rate(0, -1), 0.0) is None
    assert limit.wait_s(0.0) == 0.0


def test_a_rate_relative_to_another_keeps_unlimited_quantities() -> None:
    assert Rate(10, 0, 5.0).plus(2.0, 100.0) == Rate(20, 0, 5.0)
