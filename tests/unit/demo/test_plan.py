from __future__ import annotations

from collections import Counter

import pytest

from magnetar.demo.plan import (
    HELD_ONE_IN,
    LATE_MS_MAX,
    LATE_MS_MIN,
    LATE_ONE_IN,
    PUBLISH_SECONDS_MIN,
    Pace,
    patience_ms,
    publish_seconds,
)


@pytest.mark.parametrize(("elapsed", "due"), [(-1.0, 0), (0.0, 0), (5.0, 50), (9.99, 99), (10.0, 100), (1e9, 100)])
def test_pace(elapsed: float, due: int) -> None:
    assert Pace(100, 10.0).due(elapsed) == due


def test_a_short_run_has_room_for_the_switches() -> None:
    assert publish_seconds(1_000) == PUBLISH_SECONDS_MIN


def test_all_flights_fit_into_the_time() -> None:
    assert publish_seconds(336_776) < 200.0


def test_most_are_prompt_some_late_a_few_never() -> None:
    count = 200_000
    kinds = Counter(
        "held" if patience is None else "late" if patience else "prompt"
        for patience in (patience_ms(number, holds=True) for number in range(count))
    )
    assert kinds["late"] == pytest.approx(count / LATE_ONE_IN, rel=0.1)
    assert kinds["held"] == pytest.approx(count / HELD_ONE_IN, rel=0.5)


def test_late_ones_come_within_their_bounds() -> None:
    late = [patience for number in range(50_000) if (patience := patience_ms(number, holds=False))]
    assert LATE_MS_MIN <= min(late) < LATE_MS_MIN + 100
    assert LATE_MS_MAX - 100 < max(late) <= LATE_MS_MAX


def test_the_last_cluster_holds_nothing() -> None:
    assert None not in {patience_ms(number, holds=False) for number in range(50_000)}
