"""How late the event loop is, as a histogram."""

from __future__ import annotations

import math

from magnetar.broker.loop_stalls import INTERVAL_S, LoopStalls
from magnetar.sim.loop import HandClock, HandLoop


def test_each_look_is_counted_by_how_late_it_is() -> None:
    loop, stalls = HandLoop(), LoopStalls()
    stop = stalls.watch(loop, HandClock(loop))
    assert dict(stalls.buckets())[math.inf] == 0
    loop.advance(INTERVAL_S)
    assert dict(stalls.buckets())[0.001] == 1, "it was in time"
    loop.advance(INTERVAL_S + 0.2)
    late = dict(stalls.buckets())
    assert (late[0.1], late[0.25]) == (1, 2)
    loop.advance(INTERVAL_S + 60)
    assert stalls.buckets()[-2:] == [(10.0, 2), (math.inf, 3)]
    assert round(stalls.sum_s, 6) == 60.2
    stop()
    loop.advance(10)
    assert dict(stalls.buckets())[math.inf] == 3
