"""The display of a running demo on stderr: a live panel on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

if TYPE_CHECKING:
    from types import TracebackType

LINE_SECONDS = 5.0
"""Seconds between two JSON lines; a new phase is shown at once."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The displayed state of a run."""

    seconds: float
    phase: str
    flights: int
    published: int
    delivered: int
    unacknowledged: int
    duplicates: int
    replication_backlog: dict[str, int | None]
    """By cluster, the number of entries that are not yet replicated."""


class Display:
    """Displays the state; a context manager."""

    def __init__(self) -> None:
        """Begin without output."""
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._last_line = float("-inf")
        self._phase = ""

    def __enter__(self) -> Self:
        """Start the display."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the panel."""
        if self._console.is_terminal:
            self._live.stop()

    def starting(self) -> None:
        """Show that the clusters are starting."""
        self._console.print("starting three clusters and the pipeline …", highlight=False)

    def show(self, state: RunState) -> None:
        """Show ``state``; may be called often."""
        if self._console.is_terminal:
            self._live.update(_panel(state))
        elif state.phase != self._phase or state.seconds - self._last_line >= LINE_SECONDS:
            sys.stderr.write(json.dumps(asdict(state) | {"seconds": round(state.seconds, 1)}) + "\n")
            sys.stderr.flush()
            self._last_line = state.seconds
        self._phase = state.phase


def _panel(state: RunState) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(f"{state.seconds:.0f} s", state.phase)
    for name, count in (("published", state.published), ("delivered", state.delivered)):
        grid.add_row(name, ProgressBar(total=state.flights, completed=count, width=40), f"{count:,}")
    grid.add_row("in hand", f"{state.unacknowledged:,} delivered and not acknowledged")
    grid.add_row("duplicates", f"{state.duplicates:,}")
    for cluster, backlog in state.replication_backlog.items():
        grid.add_row(cluster, "not known yet" if backlog is None else f"{backlog:,} to replicate")
    return grid
