from __future__ import annotations

import pytest

from magnetar.sim.virtual.loop import HandClock


class Passing:
    """A manual source of time."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now


def test_a_clock_that_drifts_keeps_what_it_gained_when_it_runs_true_again() -> None:
    passing = Passing()
    clock = HandClock(passing)
    start = clock.now()
    clock.drift(0.1)
    passing.now = 10.0
    assert clock.now() - start == pytest.approx(11.0)
    clock.drift(0.0)
    passing.now = 20.0
    assert clock.now() - start == pytest.approx(21.0)
    assert clock.monotonic() == 20.0
    assert clock.highest == clock.now()
