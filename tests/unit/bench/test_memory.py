"""The verdict about the broker's memory: the growth after it has settled."""

from __future__ import annotations

import pytest

from bench.memory import GROWTH_MAX, Sample, verdict

MIB = 1 << 20
RATE = 500.0


def samples(before: float, after: float, backlog: int = 10) -> list[Sample]:
    """Return an hour of samples: a broker of 20 MiB grows to ``before`` MiB at once and to ``after`` MiB steadily."""
    return [
        Sample(
            seconds,
            int(seconds * RATE),
            {"ewr": int((20 if seconds == 0 else before + (after - before) * seconds / 3600) * MIB)},
            backlog,
        )
        for seconds in range(0, 3600, 30)
    ]


def test_a_broker_that_stays_as_it_is_did_not_grow() -> None:
    found = verdict(samples(110, 110.5), RATE, 600)
    assert not found["grew"]
    assert found["kept_up"]
    assert 0 < found["brokers"]["ewr"]["growth"] < GROWTH_MAX


def test_some_bytes_for_each_message_are_found() -> None:
    mib = 89 * 3600 * RATE / MIB  # an earlier leak: the order of eviction kept this much per run
    found = verdict(samples(110, 110 + mib), RATE, 600)
    assert found["grew"]
    assert found["brokers"]["ewr"]["bytes_per_message"] == pytest.approx(89, rel=0.01)


def test_samples_before_the_memory_has_settled_do_not_count() -> None:
    taken = samples(110, 110)
    assert verdict(taken, RATE, 600)["brokers"]["ewr"]["before_bytes"] == 110 * MIB
    with pytest.raises(ValueError, match="too few"):
        verdict(taken, RATE, 3_500)


def test_consumers_that_fall_behind_are_found() -> None:
    assert not verdict(samples(110, 110, backlog=10_000), RATE, 600)["kept_up"]
