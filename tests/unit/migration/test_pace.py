from __future__ import annotations

from magnetar.migration.pace import WINDOW_S, Pace


def test_one_observation_tells_no_rate() -> None:
    pace = Pace()
    assert (pace.per_second, pace.eta_s) == (None, None)
    pace.observe(10.0, 100)
    assert (pace.per_second, pace.eta_s) == (None, None)
    pace.observe(10.0, 50)
    assert pace.per_second is None, "no time has passed"


def test_the_rate_tells_when_nothing_is_left() -> None:
    pace = Pace()
    pace.observe(0.0, 1_000)
    pace.observe(2.0, 800)
    assert (pace.per_second, pace.eta_s) == (100.0, 8.0)
    pace.observe(10.0, 0)
    assert (pace.per_second, pace.eta_s) == (100.0, 0.0)


def test_what_grows_is_never_done() -> None:
    pace = Pace()
    pace.observe(0.0, 10)
    pace.observe(1.0, 20)
    assert (pace.per_second, pace.eta_s) == (-10.0, None)


def test_the_rate_is_that_of_a_window() -> None:
    pace = Pace()
    for second in range(100):
        pace.observe(float(second), 10_000 - (100 * second if second < 50 else 5_000 + second - 50))
    assert pace.per_second == 1.0
    assert len(pace._seen) <= WINDOW_S + 2
