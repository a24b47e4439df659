"""Executes a plan: starts a system, measures, stores each sample, stops the system, and continues with the other."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bench.catalogue import Session
from bench.sessions.one_broker import Fresh, Load, Storage
from bench.sessions.two_clusters import Geo
from bench.store import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bench.display import Display
    from bench.outcome import Outcome
    from bench.plan import Step
    from bench.scale import Scale
    from bench.store import Store
    from bench.systems import System


class Measuring(Protocol):
    """A running system."""

    def measure(self, measurement: str) -> Outcome:
        """Return the figures of the measurement's rows."""
        ...


class Starter(Protocol):
    """Creates a session."""

    def __call__(self, system: System, directory: Path, scale: Scale) -> AbstractContextManager[Measuring]:
        """Return a context manager that starts the system."""
        ...


SESSIONS: Mapping[Session, Starter] = {
    Session.FRESH: Fresh,
    Session.STORAGE: Storage,
    Session.LOAD: Load,
    Session.GEO: Geo,
}


@dataclass(frozen=True, slots=True)
class Run:
    """The environment of a run."""

    store: Store
    scale: Scale
    directory: Path
    """Directory for the data of the systems; emptied before and after each step, except for failed ones."""

    display: Display

    def carry_out(self, steps: Sequence[Step]) -> list[str]:
        """Run all steps; return the failed measurements with their reasons. Failures do not end the run."""
        failures: list[str] = []
        for step in steps:
            failures += self._carry_out(step)
        return failures

    def _carry_out(self, step: Step) -> list[str]:
        directory = self.directory / f"{step.session}-{step.system}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.display.starting(step)
        failures: list[str] = []
        waiting = list(step.measurements)
        try:
            with SESSIONS[step.session](step.system, directory, self.scale) as running:
                while waiting:
                    failures += self._measure(step, running, waiting.pop(0))
        except Exception as error:  # noqa: BLE001 - a system that does not start costs its rows, not the run
            reason = _reason(error)
            for measurement in waiting:
                self.display.failed(step, measurement, reason)
            failures += [f"{step.system} {measurement}: {reason}" for measurement in waiting or ["stop"]]
        if not failures:
            shutil.rmtree(directory, ignore_errors=True)
        return failures

    def _measure(self, step: Step, running: Measuring, measurement: str) -> list[str]:
        self.display.measuring(step, measurement)
        started = time.monotonic()
        try:
            outcome = running.measure(measurement)
        except Exception as error:  # noqa: BLE001 - one row must not cost the others
            self.display.failed(step, measurement, _reason(error))
            return [f"{step.system} {measurement}: {_reason(error)}"]
        seconds = time.monotonic() - started
        sample = Sample(measurement, step.system, step.round, seconds, outcome.figures, outcome.details)
        self.store.add(sample)
        self.display.measured(sample)
        return []


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
