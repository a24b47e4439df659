"""The table as a picture: the advantage over Apache Pulsar in each row, on a logarithmic scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.figures import Better, RatioTarget, Verdict, advantage
from bench.systems import TITLES, System

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from bench.report import Line

GOOD = (Verdict.MET, Verdict.BETTER, Verdict.EVEN)
FACES = {True: "#0072b2", False: "#d55e00"}
"""Blue and vermilion, which most colour-blind people can distinguish; hatching has the same meaning."""

HATCHES = {True: "", False: "////"}
INCHES_PER_ROW = 0.26
WIDTH_INCHES = 11.0
FONT_SIZE = 8
BEYOND = 3.0
"""Length of an infinite bar (one figure is 0), as a multiple of the longest finite one."""

DOTS_PER_INCH = 130


def draw(lines: Sequence[Line], directory: Path) -> None:
    """Write ``table.svg`` and ``table.png``; equal lines give equal bytes of SVG."""
    shown = [line for line in lines if line.ours is not None and line.theirs is not None]
    rows = _with_headings(shown)
    figure = Figure(figsize=(WIDTH_INCHES, INCHES_PER_ROW * len(rows) + 1.5), layout="constrained")
    figure.suptitle(f"{TITLES[System.MAGNETAR]} beside {TITLES[System.APACHE]}: times better, by the medians")
    axes = figure.subplots()
    _bars(axes, rows)
    _frame(axes, rows)
    _legend(figure)
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
    lines = {place: row for place, row in enumerate(rows) if not isinstance(row, str)}
    times = {place: _times(line) for place, line in lines.items()}
    longest = max((value for value in times.values() if 0 < value < math.inf), default=1.0)
    shortest = min((value for value in times.values() if 0 < value < math.inf), default=1.0)
    for place, line in lines.items():
        value = times[place]
        end = min(max(value, shortest / BEYOND), longest * BEYOND)
        good = line.verdict in GOOD
        axes.barh(place, end - 1, left=1, height=0.7, facecolor=FACES[good], hatch=HATCHES[good], edgecolor="white")
        target = _target(line)
        if target is not None:
            axes.plot([target, target], [place - 0.45, place + 0.45], color="black", linewidth=2)
        text = f"{value:.2g}x" if 0 < value < math.inf else f"0 {'here' if value else 'there'}"
        axes.annotate(
            f"{text} {line.verdict}",
            (max(end, target or 1.0, 1.0), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=FONT_SIZE,
            fontweight="normal" if good else "bold",
        )


def _times(line: Line) -> float:
    assert line.ours is not None
    assert line.theirs is not None
    return advantage(line.ours, line.theirs, line.row.better)


def _target(line: Line) -> float | None:
    """Return the target as an advantage; None if there is none, or it is not a ratio."""
    if not isinstance(line.row.target, RatioTarget):
        return None
    return 1 / line.row.target.bound if line.row.better is Better.LOWER else line.row.target.bound


def _frame(axes: Axes, rows: Sequence[Line | str]) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.3, high * 2.5)
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g}x")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(
        range(len(rows)), ["" if isinstance(row, str) else row.row.label for row in rows], fontsize=FONT_SIZE
    )
    for place, row in enumerate(rows):
        if isinstance(row, str):
            heading = axes.text(0.0, place, row, transform=axes.get_yaxis_transform(), va="center", fontsize=FONT_SIZE)
            heading.set(fontweight="bold", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(figure: Figure) -> None:
    entries = [
        Patch(facecolor=FACES[True], label="target met; better, or even, where there is none"),
        Patch(facecolor=FACES[False], hatch=HATCHES[False], edgecolor="white", label="MISSED or LOST"),
        Line2D([], [], color="black", linewidth=2, marker="|", linestyle="none", markersize=10, label="target"),
    ]
    figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), fontsize=FONT_SIZE, frameon=False)
