"""Progress and messages of ``magnetar up``, on stderr: lines on a terminal, and JSON lines otherwise."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn

from magnetar.cli.output import say, say_json

if TYPE_CHECKING:
    from magnetar.ops.local_clusters import StartStep


class StartSteps:
    """Shows the begin and the end of each step, within its ``with`` block, and messages at any time."""

    def __init__(self) -> None:
        """Show nothing yet."""
        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[took]}"),
        )
        self._lines = Progress(*columns, console=Console(stderr=True, highlight=False)) if sys.stderr.isatty() else None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        """Begin to show steps."""
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the steps on the terminal."""
        if self._lines is not None:
            self._lines.stop()

    def tell(self, text: str) -> None:
        """Show a message."""
        if self._lines is None:
            say_json(event="message", message=text)
        else:
            say(text)

    def show(self, step: StartStep) -> None:
        """Show the begin or the end of a step."""
        if self._lines is None:
            event = "starting" if step.seconds is None else "started"
            took = {} if step.seconds is None else {"seconds": round(step.seconds, 3)}
            say_json(event=event, step=step.name, **took)
        elif step.seconds is None:
            self._tasks[step.name] = self._lines.add_task(step.name, total=1, took="starting")
        else:
            self._lines.update(self._tasks[step.name], completed=1, took=f"ready after {step.seconds:.1f} s")
