"""Percentiles of measurements."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of ``count`` samples, in their unit; 0.0 without samples."""

    p50: float
    p99: float
    count: int

    @classmethod
    def worst(cls, measured: Sequence[Percentiles]) -> Self:
        """Return the highest of each percentile: an upper bound for the percentiles of all samples together."""
        return cls(
            p50=max((each.p50 for each in measured), default=0.0),
            p99=max((each.p99 for each in measured), default=0.0),
            count=sum(each.count for each in measured),
        )


class Samples:
    """Measurements of one kind."""

    def __init__(self) -> None:
        """Begin without samples."""
        self._values = array("f")

    def add(self, values: Iterable[float]) -> None:
        """Add ``values``."""
        self._values.extend(values)

    def percentiles(self) -> Percentiles:
        """Return the nearest-rank percentiles of all values."""
        ordered = sorted(self._values)
        return Percentiles(_rank(ordered, 0.50), _rank(ordered, 0.99), len(ordered))


def _rank(ordered: list[float], part: float) -> float:
    return round(ordered[ceil(part * len(ordered)) - 1], 3) if ordered else 0.0
