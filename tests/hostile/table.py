"""The table of the suite: one row for each behaviour, printed and kept as JSON lines.

``python -m tests.hostile.table FILE`` prints the rows of a file again, the newest of each name.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DIRECTORY = Path("build/hostile")
ROWS = DIRECTORY / "rows.jsonl"
WIDTH = 230
"""Columns of the printed table."""

LATE_MS = 100.0
"""What an attack may add to the longest gap of the well-behaved client."""

STARVED = 0.2
"""Share of the time without a processor from which a long turn says nothing about the broker: the machine is busy."""

MEBIBYTE = 1 << 20
HEADS = (
    ("behaviour", "left"),
    ("acts", "right"),
    ("receipt ms\np50 / p99 / gap", "right"),
    ("receive ms\np50 / p99 / gap", "right"),
    ("turns\n> 100 ms", "right"),
    ("longest turn ms\nall / awake / processor", "right"),
    ("commits > 100 ms\nlog / metadata", "right"),
    ("starved", "right"),
    ("memory MiB\nbefore / peak / after", "right"),
    ("descriptors\nbefore / after", "right"),
    ("left behind", "left"),
    ("verdict", "left"),
)


class LongestTurn(NamedTuple):
    """The turn of the broker's loop with the most processor time."""

    ms: float
    processor_ms: float
    """Time on a processor."""
    where: str
    """Functions that the loop was in, the innermost first; empty if that was not seen."""
    awake_ms: float
    """The longest of all turns without the time in which the loop could run and got no processor. It includes waiting
    for the disk, and for a thread that has the interpreter's lock and gets no processor."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one behaviour did."""

    name: str
    text: str
    acts: int
    experience: dict[str, Any]
    gap_ms: float
    baseline_gap_ms: float
    stalls: int | None
    """Turns of the broker's loop that took longer than 100 ms; None if not known."""
    slow_commits: int | None
    """Groups of entries that took the disk longer than 100 ms; None if not known."""
    slow_metadata_commits: int | None
    """The same for metadata."""
    longest_turn: LongestTurn | None
    """None if no turn was long, or the loop was not watched."""
    resident_bytes: tuple[int, int, int]
    """Before, at the peak, and after."""
    descriptors: tuple[int, int]
    """Before and after."""
    left_behind: list[str]
    account: dict[str, Any]
    log_bytes: int
    load_average: float
    starved: float
    """Share of the time for which the loop of the broker was ready to run and got no processor."""
    expected_gap_ms: float = 0.0
    """Gap that the fault itself makes."""
    repeats: bool = False
    """Whether messages may come again, because the fault ends the process or the topic."""

    @property
    def verdict(self) -> str:
        """``ok``; ``late`` for a gap, or a long turn, that a busy machine explains; else what is wrong."""
        repeated = f"repeated {self.account['repeated']}" if self.account["repeated"] else ""
        wrong = [f"{kind} {self.account[kind]}" for kind in ("without_receipt", "lost") if self.account[kind]]
        if not self.repeats:
            wrong += [repeated] if repeated else []
            wrong += [] if self.account["is_in_order"] else ["disorder"]
        wrong += ["left something"] if self.left_behind else []
        wrong += ["stall"] if self.is_stalled else []
        if wrong:
            return ", ".join(wrong)
        is_late = self.stalls or self.gap_ms > self.baseline_gap_ms + LATE_MS
        return ", ".join(filter(None, ("late" if is_late and not self.is_a_gap_expected else "ok", repeated)))

    @property
    def is_stalled(self) -> bool:
        """Whether turns of the loop were too long although the broker had a processor."""
        if self.is_a_gap_expected:
            return False
        turn, has_processor = self.longest_turn, self.starved < STARVED
        if turn is not None:
            return turn.processor_ms > LATE_MS or (turn.awake_ms > LATE_MS and has_processor)
        return bool(self.stalls) and has_processor

    @property
    def is_a_gap_expected(self) -> bool:
        """Whether the fault itself explains the gap."""
        return 0 < self.gap_ms <= self.baseline_gap_ms + LATE_MS + self.expected_gap_ms and self.expected_gap_ms > 0


def keep(row: Row) -> None:
    """Append the row to the file of rows."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with ROWS.open("a", encoding="utf-8") as rows:
        rows.write(json.dumps({**asdict(row), "verdict": row.verdict}) + "\n")


def render(rows: Iterable[Row]) -> str:
    """Return the table as text."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head, justify in HEADS:
        table.add_column(head, justify=justify, no_wrap=head == "behaviour")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*_cells(row))
    console = Console(width=WIDTH, no_color=True, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _cells(row: Row) -> tuple[str, ...]:
    memory = " / ".join(f"{value / MEBIBYTE:.0f}" for value in row.resident_bytes)
    return (
        row.name,
        f"{row.acts:,}",
        _durations(row.experience["receipt"]),
        _durations(row.experience["receive"]),
        _count(row.stalls),
        _turn(row.longest_turn),
        f"{_count(row.slow_commits)} / {_count(row.slow_metadata_commits)}",
        f"{row.starved:.0%}",
        memory,
        " / ".join(map(str, row.descriptors)),
        ", ".join(row.left_behind),
        row.verdict,
    )


def _turn(turn: LongestTurn | None) -> str:
    return "-" if turn is None else f"{turn.ms:.0f} / {turn.awake_ms:.0f} / {turn.processor_ms:.0f}"


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)


def _durations(durations: dict[str, float]) -> str:
    return f"{durations['p50']:.1f} / {durations['p99']:.0f} / {durations['gap']:.0f}"


def main(arguments: Sequence[str]) -> int:
    """Print a file of rows."""
    path = Path(arguments[0]) if arguments else ROWS
    newest: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        values.pop("verdict")
        turn = values.pop("longest_turn")
        newest[values["name"]] = Row(**values, longest_turn=None if turn is None else LongestTurn(*turn))
    sys.stdout.write(render(newest.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
