"""Statistics of samples: median and range, the ratio of two systems, and the verdict about a target. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Better(StrEnum):
    """The direction in which a figure improves."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class RatioTarget:
    """A bound of Magnetar's median divided by Apache Pulsar's, inclusive; an upper one if lower is better."""

    bound: float


@dataclass(frozen=True, slots=True)
class WorstTarget:
    """A bound, inclusive, of Magnetar's worst figure in any round, independent of Apache Pulsar."""

    bound: float


Target = RatioTarget | WorstTarget


class Verdict(StrEnum):
    """The result of a row for Magnetar."""

    MET = "met"
    MISSED = "MISSED"
    BETTER = "better"
    EVEN = "even"
    LOST = "LOST"
    NOT_MEASURED = "not measured"


EVEN_RATIO = 0.05
"""Maximum difference of medians that count as equal, as a fraction of Apache Pulsar's, for rows without a target."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The samples of one system in one row."""

    median: float
    low: float
    high: float
    count: int


def summarize(samples: Sequence[float]) -> Summary | None:
    """Return the samples' median and range; None without samples."""
    if not samples:
        return None
    return Summary(statistics.median(samples), min(samples), max(samples), len(samples))


def ratio(ours: Summary | None, theirs: Summary | None) -> float | None:
    """Return our median divided by theirs; None if one is missing or theirs is 0."""
    if ours is None or theirs is None or theirs.median == 0:
        return None
    return ours.median / theirs.median


def judge(ours: Summary | None, theirs: Summary | None, better: Better, target: Target | None) -> Verdict:
    """Compare with the target, or with Apache Pulsar's median if there is no target."""
    if ours is None or theirs is None:
        return Verdict.NOT_MEASURED
    if isinstance(target, WorstTarget):
        return _verdict(ours.high if better is Better.LOWER else ours.low, target.bound, better)
    if isinstance(target, RatioTarget):
        # A product instead of a ratio, so that a figure of 0 of theirs is possible.
        return _verdict(ours.median, target.bound * theirs.median, better)
    if abs(ours.median - theirs.median) <= EVEN_RATIO * theirs.median:
        return Verdict.EVEN
    return Verdict.BETTER if (ours.median < theirs.median) is (better is Better.LOWER) else Verdict.LOST


def _verdict(value: float, bound: float, better: Better) -> Verdict:
    met = value <= bound if better is Better.LOWER else value >= bound
    return Verdict.MET if met else Verdict.MISSED


def advantage(ours: Summary, theirs: Summary, better: Better) -> float:
    """Return the factor by which our median is better, below 1 if worse; infinite or 0 if one of the medians is 0."""
    good, bad = (theirs.median, ours.median) if better is Better.LOWER else (ours.median, theirs.median)
    if good == bad:
        return 1.0
    return good / bad if bad else math.inf
