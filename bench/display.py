"""The display of a run on standard error: a progress bar on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.systems import TITLES

if TYPE_CHECKING:
    from bench.plan import Step
    from bench.store import Sample


class Display:
    """Displays the current measurement; a context manager."""

    def __init__(self, total: int) -> None:
        """Expect ``total`` measurements."""
        self._console = Console(stderr=True, highlight=False)
        # Drawn only after changes, because a drawing thread would disturb the measurements.
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=self._console, auto_refresh=False, transient=True)
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> Self:
        """Start the display."""
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Remove the progress bar."""
        if self._console.is_terminal:
            self._progress.stop()

    def starting(self, step: Step) -> None:
        """Show the start of a system."""
        self._say(
            f"round {step.round}, {TITLES[step.system]}: starting",
            {"event": "starting", "round": step.round, "system": step.system, "session": step.session},
        )

    def measuring(self, step: Step, measurement: str) -> None:
        """Show the current measurement."""
        if self._console.is_terminal:
            self._describe(f"round {step.round}, {TITLES[step.system]}: {measurement}")

    def measured(self, sample: Sample) -> None:
        """Show a result."""
        fields = {"round": sample.round, "system": sample.system, "measurement": sample.measurement}
        self._line({"event": "measured", **fields, "seconds": round(sample.seconds, 1), "figures": sample.figures})
        self._progress.advance(self._task)

    def failed(self, step: Step, measurement: str, reason: str) -> None:
        """Show a failed measurement, permanently."""
        if self._console.is_terminal:
            self._console.print(f"not measured: {measurement} of {TITLES[step.system]}: {reason}", markup=False)
        self._line({"event": "failed", "round": step.round, "measurement": measurement, "reason": reason})
        self._progress.advance(self._task)

    def _say(self, text: str, fields: dict[str, object]) -> None:
        if self._console.is_terminal:
            self._describe(text)
        self._line(fields)

    def _describe(self, text: str) -> None:
        self._progress.update(self._task, description=text)
        self._progress.refresh()

    def _line(self, fields: dict[str, object]) -> None:
        if not self._console.is_terminal:
            sys.stderr.write(json.dumps(fields) + "\n")
            sys.stderr.flush()
