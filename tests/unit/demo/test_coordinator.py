from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from magnetar.demo.account import DemoError
from magnetar.demo.coordinator import Coordinator
from magnetar.demo.processes.workers import Consumed, Failed, Published

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.demo.clusters import TopicStatus
    from magnetar.demo.display import RunState
    from magnetar.demo.processes.workers import Report


class FakeRun:
    """Unavailable clusters, processes with given reports, and a display that records."""

    def __init__(self, *reports: Report) -> None:
        self.waiting = list(reports)
        self.states: list[RunState] = []
        self.coordinator = Coordinator(self, self, self, flights=100)  # type: ignore[arg-type] # stands for all three

    def status(self, _cluster: str) -> TopicStatus | None:
        return None

    def reports(self, _wait_seconds: float) -> Iterator[Report]:
        if self.waiting:
            yield self.waiting.pop(0)

    def show(self, state: RunState) -> None:
        self.states.append(state)


def test_takes_reports_in_until_the_condition_holds() -> None:
    run = FakeRun(Published("ewr", 2), Published("ewr", 3), Published("ewr", 4))
    run.coordinator.until("five are published", lambda: run.coordinator.account.published["ewr"] >= 5)
    assert len(run.waiting) == 1


def test_names_what_did_not_happen_in_time() -> None:
    with pytest.raises(DemoError, match="not within 0 s: pigs fly"):
        FakeRun().coordinator.until("pigs fly", lambda: False, timeout_s=0)


def test_shows_where_the_run_is() -> None:
    run = FakeRun(Published("ewr", 2), Consumed(0, [(7, "1:0"), (8, "1:1")], [((7, "1:0"), 1.0)]))
    run.coordinator.enter("consuming in ewr")
    for _ in range(2):
        run.coordinator.turn()
    state = run.states[-1]
    assert (state.phase, state.flights) == ("consuming in ewr", 100)
    assert (state.published, state.delivered, state.unacknowledged, state.duplicates) == (2, 2, 1, 0)


def test_waits_as_long_as_something_moves() -> None:
    run = FakeRun(*[Published("ewr", 1)] * 50)
    assert run.coordinator.while_moving(lambda: run.coordinator.account.published["ewr"] == 50)


def test_the_last_reports_of_a_process_that_has_ended_are_taken() -> None:
    run, ended = FakeRun(Published("ewr", 359)), SimpleNamespace(running=False)
    run.coordinator.while_running([ended])  # type: ignore[list-item] # stands for a process
    assert run.coordinator.account.published["ewr"] == 359


def test_a_process_that_failed_ends_the_run() -> None:
    run = FakeRun(Failed("publisher in ewr", "boom"))
    with pytest.raises(DemoError, match="publisher in ewr failed: boom"):
        run.coordinator.until("never", lambda: False)
