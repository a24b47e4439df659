from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from magnetar.sim.virtual.network import Network
from magnetar.sim.virtual.scheduler import MachineLoop, Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler()
    yield made
    made.close()


def machine(scheduler: Scheduler, name: str = "ewr") -> MachineLoop:
    return MachineLoop(scheduler, name, Network(Random(0), lambda *_: None))


def test_callbacks_of_all_machines_run_in_the_order_of_time(scheduler: Scheduler) -> None:
    happened: list[tuple[str, float]] = []
    one, other = machine(scheduler), machine(scheduler, "jfk")
    one.call_later(2.0, lambda: happened.append(("one", one.time())))
    other.call_later(1.0, lambda: happened.append(("other", other.time())))
    one.call_later(1.0, lambda: happened.append(("behind", one.time())))
    scheduler.run_until(1.5)
    assert happened == [("other", 1.0), ("behind", 1.0)]
    scheduler.run_until(3.0)
    assert happened[2:] == [("one", 2.0)]
    assert scheduler.now == 3.0


def test_a_dead_machine_does_nothing_more(scheduler: Scheduler) -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            done.append("cleaned up")

    loop = machine(scheduler)
    loop.create_task(work())
    loop.call_later(1.0, lambda: done.append("timer"))
    scheduler.run_until(0.5)
    loop.die()
    scheduler.run_until(5.0)
    assert done == []


def test_a_timeout_passes_in_virtual_time(scheduler: Scheduler) -> None:
    async def wait() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    task = machine(scheduler).create_task(wait())
    scheduler.run_until(60.0)
    assert task.result() == 30.0


def test_unhandled_exceptions_are_recorded(scheduler: Scheduler) -> None:
    loop = machine(scheduler)
    loop.call_soon(lambda: 1 / 0)
    scheduler.run_until(1.0)
    assert len(scheduler.problems) == 1
    assert "ZeroDivisionError" in scheduler.problems[0]
