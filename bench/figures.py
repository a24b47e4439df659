"""What samples say: their median and spread, the ratio of two systems, and whether a target is met. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Better(StrEnum):
    """Which way a figure improves."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class RatioTarget:
    """A bound of Magnetar's median divided by Apache Pulsar's, inclusive; an upper one where lower is better."""

    bound: float


@dataclass(frozen=True, slots=True)
class WorstTarget:
    """A bound, inclusive, of the worst that Magnetar showed in any round, whatever Apache Pulsar did."""

    bound: float


Target = RatioTarget | WorstTarget


class Verdict(StrEnum):
    """What a row says of Magnetar."""

    MET = "met"
    MISSED = "MISSED"
    BETTER = "better"
    EVEN = "even"
    LOST = "LOST"
    NOT_MEASURED = "not measured"


EVEN_RATIO = 0.05
"""Medians at most this far apart, as a share of Apache Pulsar's, are even where no target says otherwise."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The samples of one system in one row."""

    median: float
    low: float
    high: float
    count: int


def summarize(samples: Sequence[float]) -> Summary | None:
    """Return the samples' median and range; None when there is no sample."""
    if not samples:
        return None
    return Summary(statistics.median(samples), min(samples), max(samples), len(samples))


def ratio(ours: Summary | None, theirs: Summary | None) -> float | None:
    """Return our median divided by theirs; None when one of them is missing, or theirs is 0."""
    if ours is None or theirs is None or theirs.median == 0:
        return None
    return ours.median / theirs.median


def judge(ours: Summary | None, theirs: Summary | None, better: Better, target: Target | None) -> Verdict:
    """Say how we did: against the target where there is one, else against Apache Pulsar's median."""
    if ours is None or theirs is None:
        return Verdict.NOT_MEASURED
    if isinstance(target, WorstTarget):
        return _verdict(ours.high if better is Better.LOWER else ours.low, target.bound, better)
    if isinstance(target, RatioTarget):
        # Multiplied out, so that a figure of 0 on their side is judged as well.
        return _verdict(ours.median, target.bound * theirs.median, better)
    if abs(ours.median - theirs.median) <= EVEN_RATIO * theirs.median:
        return Verdict.EVEN
    return Verdict.BETTER if (ours.median < theirs.median) is (better is Better.LOWER) else Verdict.LOST


def _verdict(value: float, bound: float, better: Better) -> Verdict:
    met = value <= bound if better is Better.LOWER else value >= bound
    return Verdict.MET if met else Verdict.MISSED


def advantage(ours: Summary, theirs: Summary, better: Better) -> float:
    """Return how many times better our median is, below 1 for worse; infinite, or 0, where only one of them is 0."""
    good, bad = (theirs.median, ours.median) if better is Better.LOWER else (ours.median, theirs.median)
    if good == bad:
        return 1.0
    return good / bad if bad else math.inf
