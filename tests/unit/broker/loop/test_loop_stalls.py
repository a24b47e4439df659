"""The histogram of the event loop's delays, and the code locations of stalls."""

from __future__ import annotations

import math
import time

import pytest
from structlog.testing import capture_logs

from magnetar.base.real import SystemClock
from magnetar.broker.loop.stack_sampler import FRAMES_MAX, StackSampler
from magnetar.broker.loop.stalls import INTERVAL_S, LOGGED_FROM_S, LoopStalls
from magnetar.sim.virtual.loop import HandClock, HandLoop


def test_each_look_is_counted_by_how_late_it_is() -> None:
    loop, stalls = HandLoop(), LoopStalls()
    stop = stalls.watch(loop, HandClock(loop))
    assert dict(stalls.late.buckets())[math.inf] == 0
    loop.advance(INTERVAL_S)
    assert dict(stalls.late.buckets())[0.001] == 1, "it was in time"
    loop.advance(INTERVAL_S + 0.2)
    late = dict(stalls.late.buckets())
    assert (late[0.1], late[0.25]) == (1, 2)
    loop.advance(INTERVAL_S + 60)
    assert stalls.late.buckets()[-2:] == [(10.0, 2), (math.inf, 3)]
    assert round(stalls.late.sum_s, 6) == 60.2
    stop()
    loop.advance(10)
    assert dict(stalls.late.buckets())[math.inf] == 3


@pytest.mark.parametrize(("where", "told"), [("a.b:1 < c.d:2", "a.b:1 < c.d:2"), ("", "not known")])
def test_a_stall_is_logged_with_where_the_loop_was(where: str, told: str) -> None:
    loop, stalls = HandLoop(), LoopStalls()
    stop = stalls.watch(loop, HandClock(loop), lambda: where)
    with capture_logs() as logs:
        loop.advance(INTERVAL_S + LOGGED_FROM_S / 2)
        loop.advance(INTERVAL_S + 2 * LOGGED_FROM_S)
    stop()
    assert [(each["event"], each["seconds"], each["where"]) for each in logs] == [
        ("event_loop_stalled", 2 * LOGGED_FROM_S, told)
    ]


def stall(until: float) -> None:
    while time.monotonic() < until:
        math.factorial(500)


def test_a_thread_that_is_busy_for_long_is_seen() -> None:
    sampler = StackSampler(SystemClock(), 0.05)
    sampler.start()
    try:
        stall(time.monotonic() + 0.5)
        seen = sampler.beat()
        assert ".stall:" in seen.partition(" < ")[0]
        assert seen.count(" < ") <= FRAMES_MAX
        for _ in range(20):
            assert not sampler.beat(), "it is not late any more"
    finally:
        sampler.stop()
