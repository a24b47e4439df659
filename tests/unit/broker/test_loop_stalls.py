"""How late the event loop is, as a histogram."""

from __future__ import annotations

from magnetar.broker.loop_stalls import BOUNDS_S, INTERVAL_S, LoopStalls
from magnetar.sim.loop import HandClock, HandLoop


def test_each_look_is_counted_by_how_late_it_is() -> None:
    loop, stalls = HandLoop(), LoopStalls()
    stop = stalls.watch(loop, HandClock(loop))
    assert stalls.cumulative()[-1] == 0
    loop.advance(INTERVAL_S)
    assert stalls.cumulative()[0] == 1, "it was in time"
    loop.advance(INTERVAL_S + 0.2)
    late = dict(zip(BOUNDS_S, stalls.cumulative(), strict=False))
    assert (late[0.1], late[0.25]) == (1, 2)
    loop.advance(INTERVAL_S + 60)
    assert stalls.cumulative()[-2:] == [2, 3]
    assert round(stalls.sum_s, 6) == 60.2
    stop()
    loop.advance(10)
    assert stalls.cumulative()[-1] == 3
