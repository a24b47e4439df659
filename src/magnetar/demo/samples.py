"""Percentiles of what was measured."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of ``count`` samples, in their unit; 0.0 when there are none."""

    p50: float
    p99: float
    count: int

    @classmethod
    def worst(cls, measured: Sequence[Percentiles]) -> Self:
        """The highest of ``measured``: never lower than the percentiles of all their samples together."""
        return cls(
            p50=max((each.p50 for each in measured), default=0.0),
            p99=max((each.p99 for each in measured), default=0.0),
            count=sum(each.count for each in measured),
        )


class Samples:
    """Measurements of one kind."""

    def __init__(self) -> None:
        """Nothing was measured yet."""
        self._values = array("f")

    def add(self, values: Iterable[float]) -> None:
        """Take ``values`` in."""
        self._values.extend(values)

    def percentiles(self) -> Percentiles:
        """The nearest-rank percentiles of all values so far."""
        ordered = sorted(self._values)
        return Percentiles(_rank(ordered, 0.50), _rank(ordered, 0.99), len(ordered))


def _rank(ordered: list[float], part: float) -> float:
    return round(ordered[ceil(part * len(ordered)) - 1], 3) if ordered else 0.0
