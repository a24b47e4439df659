from __future__ import annotations

import math

import pytest

from bench.figures import (
    Better,
    RatioTarget,
    Summary,
    Target,
    Verdict,
    WorstTarget,
    advantage,
    judge,
    ratio,
    summarize,
)


def one(value: float) -> Summary:
    return Summary(value, value, value, 1)


def test_a_summary_is_median_and_range() -> None:
    assert summarize([3.0, 9.0, 1.0]) == Summary(3.0, 1.0, 9.0, 3)
    assert summarize([1.0, 2.0]) == Summary(1.5, 1.0, 2.0, 2)
    assert summarize([]) is None


def test_the_ratio_is_ours_by_theirs() -> None:
    assert ratio(one(2), one(8)) == 0.25
    assert ratio(one(0), one(8)) == 0
    assert ratio(one(2), one(0)) is None
    assert ratio(None, one(8)) is None
    assert ratio(one(2), None) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "better", "target", "expected"),
    [
        (2, 8, Better.LOWER, RatioTarget(1 / 4), Verdict.MET),
        (2.01, 8, Better.LOWER, RatioTarget(1 / 4), Verdict.MISSED),
        (16, 8, Better.HIGHER, RatioTarget(2), Verdict.MET),
        (15.9, 8, Better.HIGHER, RatioTarget(2), Verdict.MISSED),
        (0, 0, Better.LOWER, RatioTarget(1), Verdict.MET),
        (1, 0, Better.LOWER, RatioTarget(1), Verdict.MISSED),
        (0, 41, Better.LOWER, WorstTarget(0), Verdict.MET),
        (1, 41, Better.LOWER, WorstTarget(0), Verdict.MISSED),
        (7, 8, Better.LOWER, None, Verdict.BETTER),
        (9, 8, Better.LOWER, None, Verdict.LOST),
        (9, 8, Better.HIGHER, None, Verdict.BETTER),
        (7, 8, Better.HIGHER, None, Verdict.LOST),
        (8.39, 8, Better.LOWER, None, Verdict.EVEN),
        (8.41, 8, Better.LOWER, None, Verdict.LOST),
        (0, 0, Better.LOWER, None, Verdict.EVEN),
    ],
)
def test_verdicts(ours: float, theirs: float, better: Better, target: Target | None, expected: Verdict) -> None:
    assert judge(one(ours), one(theirs), better, target) is expected


def test_the_worst_round_decides_where_the_target_says_so() -> None:
    assert judge(Summary(0, 0, 3, 3), one(500), Better.LOWER, WorstTarget(0)) is Verdict.MISSED


def test_missing_figures_are_neither_won_nor_lost() -> None:
    assert judge(None, one(1), Better.LOWER, RatioTarget(1)) is Verdict.NOT_MEASURED
    assert judge(one(1), None, Better.LOWER, WorstTarget(2)) is Verdict.NOT_MEASURED


def test_an_advantage_above_1_is_ours_whichever_way_is_better() -> None:
    assert advantage(one(2), one(8), Better.LOWER) == 4
    assert advantage(one(2), one(8), Better.HIGHER) == 0.25
    assert advantage(one(0), one(8), Better.LOWER) == math.inf
    assert advantage(one(0), one(0), Better.LOWER) == 1
    assert advantage(one(5), one(0), Better.LOWER) == 0
