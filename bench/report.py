"""The lines of the table, computed from samples, and their JSON form. Pure except for reading the samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.catalogue import MEASUREMENTS
from bench.figures import RatioTarget, judge, ratio, summarize
from bench.systems import System

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.catalogue import Row
    from bench.figures import Summary, Verdict
    from bench.store import Store


@dataclass(frozen=True, slots=True)
class Line:
    """One row with its results."""

    group: str
    row: Row
    theirs: Summary | None
    ours: Summary | None
    ratio: float | None
    """Magnetar's median divided by Apache Pulsar's."""

    verdict: Verdict
    seconds: float | None
    """Total duration of the measurement, on its first row."""


def lines(store: Store, measurements: Iterable[str]) -> list[Line]:
    """Return a line for every row of the given measurements, in the order of the table."""
    wanted = set(measurements)
    found = []
    for measurement in MEASUREMENTS:
        if measurement.id in wanted:
            for index, row in enumerate(measurement.rows):
                theirs = summarize(store.of(row.id, System.APACHE))
                ours = summarize(store.of(row.id, System.MAGNETAR))
                verdict = judge(ours, theirs, row.better, row.target)
                seconds = None if index else store.seconds(measurement.id)
                found.append(Line(measurement.group, row, theirs, ours, ratio(ours, theirs), verdict, seconds))
    return found


def as_json(found: Iterable[Line]) -> list[dict[str, Any]]:
    """Return lines as JSON values."""
    return [
        {
            "id": line.row.id,
            "group": line.group,
            "label": line.row.label,
            "unit": line.row.unit,
            "better": line.row.better,
            "target": target_json(line.row),
            "apache": asdict(line.theirs) if line.theirs else None,
            "magnetar": asdict(line.ours) if line.ours else None,
            "ratio": line.ratio,
            "verdict": line.verdict,
        }
        for line in found
    ]


def target_json(row: Row) -> dict[str, object] | None:
    """Return the row's target as a JSON value."""
    if row.target is None:
        return None
    return {"of": "ratio" if isinstance(row.target, RatioTarget) else "worst of Magnetar", "bound": row.target.bound}
