"""Waiters for work in progress resume when all of it has ended."""

from __future__ import annotations

from magnetar.broker.loop.under_way import UnderWay
from magnetar.sim.virtual.loop import HandLoop


def test_waiters_resume_when_all_work_has_ended() -> None:
    loop, work = HandLoop(), UnderWay()
    work.begin()
    work.begin()
    waiting = [loop.start(work.over()) for _ in range(3)]
    work.end()
    loop.spin()
    assert work
    assert not any(each.done() for each in waiting)
    work.end()
    loop.spin()
    assert not work
    assert all(each.done() for each in waiting)


def test_waiting_without_work_returns_at_once() -> None:
    loop, work = HandLoop(), UnderWay()
    waiting = loop.start(work.over())
    loop.spin()
    assert waiting.done()
    work.begin()
    work.end()
    assert not work


def test_work_that_begins_before_the_waiters_resume_is_awaited_too() -> None:
    loop, work = HandLoop(), UnderWay()
    work.begin()
    waiting = loop.start(work.over())
    loop.spin()
    work.end()
    work.begin()
    loop.spin()
    assert not waiting.done()
    later = loop.start(work.over())
    loop.spin()
    work.end()
    loop.spin()
    assert waiting.done()
    assert later.done()
