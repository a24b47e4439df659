from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from magnetar.demo.processes.workers import Controls, Failed, Published, Report, Work, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Counting:
    """Reports once at its start, and once with a result when it is stopped."""

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        report(Published("started", 1))
        controls.stop.wait()
        report(Published("broker lost" if controls.broker_lost.is_set() else "told to stop", 1))


@dataclass(frozen=True, slots=True)
class Failing:
    """Fails at once."""

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        raise RuntimeError("no idea")  # noqa: EM101, TRY003 - a test's error


@pytest.fixture
def workers() -> Iterator[Workers]:
    everyone = Workers()
    yield everyone
    everyone.close()


def next_report(workers: Workers) -> Report:
    return next(workers.reports(wait_seconds=60.0))


@pytest.mark.parametrize(("broker_lost", "last_word"), [(False, "told to stop"), (True, "broker lost")])
def test_works_from_go_to_stop(workers: Workers, last_word: str, *, broker_lost: bool) -> None:
    worker = workers.add("counting", Counting())
    assert list(workers.reports(wait_seconds=0.0)) == []
    worker.go()
    assert next_report(workers) == Published("started", 1)
    worker.stop(broker_lost=broker_lost)
    assert next_report(workers) == Published(last_word, 1)


def test_a_failure_is_reported_by_name(workers: Workers) -> None:
    work: Work = Failing()
    worker = workers.add("failing", work)
    worker.go()
    report = next_report(workers)
    assert isinstance(report, Failed)
    assert report.name == "failing"
    assert "no idea" in report.error


def test_no_process_is_left_behind(workers: Workers) -> None:
    worker = workers.add("counting", Counting())
    workers.close()
    assert not worker.running
