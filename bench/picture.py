"""The table as a picture: how many times better than Apache Pulsar each row is, on a logarithmic scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.figures import Better, RatioTarget, Verdict, advantage
from bench.systems import TITLES, System

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from bench.report import Line

GOOD = (Verdict.MET, Verdict.BETTER, Verdict.EVEN)
FACES = {True: "#0072b2", False: "#d55e00"}
"""Blue and vermilion, which most colour-blind people tell apart; hatching says the same."""

HATCHES = {True: "", False: "////"}
INCHES_PER_ROW = 0.26
WIDTH_INCHES = 11.0
BEYOND = 3.0
"""A row without end, because a figure is 0 here alone, reaches this many times beyond the longest other."""

DOTS_PER_INCH = 130


def draw(lines: Sequence[Line], directory: Path) -> None:
    """Write ``table.svg`` and ``table.png``; the same lines give the same bytes of SVG."""
    shown = [line for line in lines if line.ours is not None and line.theirs is not None]
    rows = _with_headings(shown)
    figure = Figure(figsize=(WIDTH_INCHES, INCHES_PER_ROW * len(rows) + 1.5), layout="constrained")
    axes = figure.subplots()
    _bars(axes, rows)
    _frame(axes, rows)
    with mpl.rc_context({"svg.hashsalt": "magnetar", "svg.fonttype": "none"}):
        figure.savefig(directory / "table.svg", metadata={"Date": None})
    figure.savefig(directory / "table.png", dpi=DOTS_PER_INCH)


def _with_headings(lines: Sequence[Line]) -> list[Line | str]:
    rows: list[Line | str] = []
    group = None
    for line in lines:
        if line.group != group:
            group = line.group
            rows.append(group)
        rows.append(line)
    return rows


def _bars(axes: Axes, rows: Sequence[Line | str]) -> None:
    times = {row.row.id: _times(row) for row in rows if not isinstance(row, str)}
    longest = max((value for value in times.values() if math.isfinite(value)), default=1.0)
    for place, row in enumerate(rows):
        if isinstance(row, str):
            continue
        value = times[row.row.id]
        end = value if math.isfinite(value) else longest * BEYOND
        good = row.verdict in GOOD
        axes.barh(
            place, end - 1, left=1, height=0.7, color=FACES[good], hatch=HATCHES[good], edgecolor="white", linewidth=0
        )
        text = f"{value:.2g}x" if math.isfinite(value) else "0 here"
        axes.annotate(
            f"{text} {row.verdict}",
            (max(end, 1.0), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            fontweight="normal" if good else "bold",
        )
        if isinstance(row.row.target, RatioTarget):
            bound = row.row.target.bound
            target = 1 / bound if row.row.better is Better.LOWER else bound
            axes.plot([target, target], [place - 0.45, place + 0.45], color="black", linewidth=2)


def _times(line: Line) -> float:
    assert line.ours is not None
    assert line.theirs is not None
    return advantage(line.ours, line.theirs, line.row.better)


def _frame(axes: Axes, rows: Sequence[Line | str]) -> None:
    axes.set_xscale("log")
    axes.set_xlim(axes.get_xlim()[0] / 1.3, axes.get_xlim()[1] * 2.5)
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g}x")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [row if isinstance(row, str) else f"{row.row.label}" for row in rows], fontsize=8)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        if isinstance(row, str):
            label.set_fontweight("bold")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(
        f"{TITLES[System.MAGNETAR]}, times better than {TITLES[System.APACHE]} (medians); "
        "black bars: targets; hatched: missed or lost"
    )
