"""Progress of long commands, on stderr: bars on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERVAL_S = 1.0
"""Seconds between two JSON lines."""


@contextmanager
def progress(event: str, kinds: tuple[str, ...]) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that reports progress: ``(what, done, total)``, with ``what`` from ``kinds``.

    A line has the keys ``event``, ``what``, ``done`` and ``total``. Work shorter than the interval prints no line.
    """
    if not sys.stderr.isatty():
        yield _Lines(event)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {what: bars.add_task(what, total=None) for what in kinds}
        yield lambda what, done, total: bars.update(tasks[what], completed=done, total=total)


class _Lines:
    def __init__(self, event: str) -> None:
        self._event = event
        self._said_at = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said_at >= INTERVAL_S:
            self._said_at = now
            line = {"event": self._event, "what": what, "done": done, "total": total}
            sys.stderr.write(json.dumps(line) + "\n")
