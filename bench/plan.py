"""The order of measurements: the two systems alternate in each round; existing samples are skipped. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.catalogue import MEASUREMENTS, Measurement, Session
from bench.systems import System

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.scale import Scale


@dataclass(frozen=True, slots=True)
class Step:
    """One start of a system, with its measurements."""

    round: int
    session: Session
    system: System
    measurements: tuple[str, ...]


def chosen(pattern: str | None, scale: Scale) -> list[Measurement]:
    """Return the measurements of this scale with a row whose id ``pattern`` matches; raises re.error."""
    expression = re.compile(pattern or "")
    return [
        measurement
        for measurement in MEASUREMENTS
        if measurement.id not in scale.left_out and any(expression.search(row.id) for row in measurement.rows)
    ]


def steps(measurements: Sequence[Measurement], rounds: int, is_done: Callable[[str, System, int], bool]) -> list[Step]:
    """Return the steps. Only one system runs at a time, and each row alternates between the two."""
    planned = []
    for number in range(1, rounds + 1):
        for session in Session:
            for system in System:
                missing = tuple(
                    each.id for each in measurements if each.session is session and not is_done(each.id, system, number)
                )
                if missing:
                    planned.append(Step(number, session, system, missing))
    return planned
