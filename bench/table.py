"""The table as text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.figures import Better, RatioTarget
from bench.systems import TITLES, System

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.catalogue import Row
    from bench.figures import Summary
    from bench.report import Line

HEADS = ("", TITLES[System.APACHE], TITLES[System.MAGNETAR], "ratio", "target", "result", "took")
GAP = "  "
DIGITS = 3
"""Significant digits of a figure below 1,000."""


def table(lines: Sequence[Line]) -> str:
    """Return rows below the headings of their groups; figures are median (lowest - highest) of the rounds."""
    cells = [_cells(line) for line in lines]
    widths = [max(map(len, column)) for column in zip(HEADS, *cells, strict=True)]
    printed = [_join(HEADS, widths), "─" * (sum(widths) + len(GAP) * (len(widths) - 1))]
    group = None
    for line, row in zip(lines, cells, strict=True):
        if line.group != group:
            group = line.group
            printed += ["", group] if len(printed) > len(HEADS[:2]) else [group]
        printed.append(_join(row, widths))
    return "\n".join(text.rstrip() for text in printed) + "\n"


def figure(value: float) -> str:
    """Return a number with its significant digits."""
    if value >= 10 ** (DIGITS - 1) or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{DIGITS}g}"


def spread(summary: Summary | None) -> str:
    """Return a median and its range."""
    if summary is None:
        return "-"
    if summary.count == 1 or summary.low == summary.high:
        return figure(summary.median)
    return f"{figure(summary.median)} ({figure(summary.low)}-{figure(summary.high)})"


def target_text(row: Row) -> str:
    """Return the row's target: of the ratio with an x, otherwise of the figure itself."""
    if row.target is None:
        return ""
    sign = "≤" if row.better is Better.LOWER else "≥"
    bound = f"{row.target.bound:.2f}x" if isinstance(row.target, RatioTarget) else figure(row.target.bound)
    return f"{sign} {bound}"


def _cells(line: Line) -> tuple[str, ...]:
    return (
        f"  {line.row.label}, {line.row.unit}" if line.row.unit != "/s" else f"  {line.row.label}/s",
        spread(line.theirs),
        spread(line.ours),
        "" if line.ratio is None else f"{line.ratio:.2f}x",
        target_text(line.row),
        line.verdict,
        "" if line.seconds is None else f"{line.seconds:.0f} s",
    )


def _join(cells: Iterable[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
