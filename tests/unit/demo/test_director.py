from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.demo.account import DemoError
from magnetar.demo.director import Director
from magnetar.demo.processes.workers import Consumed, Failed, Published

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.demo.clusters import Standing
    from magnetar.demo.display import Moment
    from magnetar.demo.processes.workers import Report


class World:
    """Clusters that do not answer, processes that report what they are given, and a display that remembers."""

    def __init__(self, *reports: Report) -> None:
        self.waiting = list(reports)
        self.moments: list[Moment] = []
        self.director = Director(self, self, self, flights=100)  # type: ignore[arg-type] # plays all three

    def standing(self, _cluster: str) -> Standing | None:
        return None

    def reports(self, _wait_seconds: float) -> Iterator[Report]:
        if self.waiting:
            yield self.waiting.pop(0)

    def show(self, moment: Moment) -> None:
        self.moments.append(moment)


def test_takes_reports_in_until_the_condition_holds() -> None:
    world = World(Published("ewr", 2), Published("ewr", 3), Published("ewr", 4))
    world.director.until("five are published", lambda: world.director.account.published["ewr"] >= 5)
    assert len(world.waiting) == 1


def test_names_what_did_not_happen_in_time() -> None:
    with pytest.raises(DemoError, match="not within 0 s: pigs fly"):
        World().director.until("pigs fly", lambda: False, timeout_s=0)


def test_shows_where_the_run_is() -> None:
    world = World(Published("ewr", 2), Consumed(0, [(7, "1:0"), (8, "1:1")], [((7, "1:0"), 1.0)]))
    world.director.enter("consuming in ewr")
    for _ in range(2):
        world.director.turn()
    moment = world.moments[-1]
    assert (moment.phase, moment.flights) == ("consuming in ewr", 100)
    assert (moment.published, moment.delivered, moment.unacknowledged, moment.duplicates) == (2, 2, 1, 0)


def test_waits_as_long_as_something_moves() -> None:
    world = World(*[Published("ewr", 1)] * 50)
    assert world.director.while_moving(lambda: world.director.account.published["ewr"] == 50)


def test_a_process_that_failed_ends_the_run() -> None:
    world = World(Failed("publisher in ewr", "boom"))
    with pytest.raises(DemoError, match="publisher in ewr failed: boom"):
        world.director.until("never", lambda: False)
