"""How the run is shown while it goes: a live panel on a terminal, JSON lines otherwise, both on stderr."""

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
"""Seconds between two JSON lines; a new phase is said at once."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the run is."""

    seconds: float
    phase: str
    flights: int
    published: int
    delivered: int
    unacknowledged: int
    duplicates: int
    replication_backlog: dict[str, int | None]
    """Per cluster, what it has not passed on yet."""


class Display:
    """Shows moments; use as a context manager."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._last_line = float("-inf")
        self._phase = ""

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the panel."""
        if self._console.is_terminal:
            self._live.stop()

    def starting(self) -> None:
        """Say that the clusters are being started, which takes a while."""
        self._console.print("starting three clusters and the pipeline …", highlight=False)

    def show(self, moment: Moment) -> None:
        """Show ``moment``; called often."""
        if self._console.is_terminal:
            self._live.update(_panel(moment))
        elif moment.phase != self._phase or moment.seconds - self._last_line >= LINE_SECONDS:
            sys.stderr.write(json.dumps(asdict(moment) | {"seconds": round(moment.seconds, 1)}) + "\n")
            sys.stderr.flush()
            self._last_line = moment.seconds
        self._phase = moment.phase


def _panel(moment: Moment) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(f"{moment.seconds:.0f} s", moment.phase)
    for name, count in (("published", moment.published), ("delivered", moment.delivered)):
        grid.add_row(name, ProgressBar(total=moment.flights, completed=count, width=40), f"{count:,}")
    grid.add_row("in hand", f"{moment.unacknowledged:,} delivered and not acknowledged")
    grid.add_row("duplicates", f"{moment.duplicates:,}")
    for cluster, backlog in moment.replication_backlog.items():
        grid.add_row(cluster, "not known yet" if backlog is None else f"{backlog:,} to replicate")
    return grid
