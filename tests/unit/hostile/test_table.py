"""The entries of the hostile suite's table for a behaviour."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile import attacks
from tests.hostile.bystander import longest_gap
from tests.hostile.catalogue import BEHAVIOURS
from tests.hostile.table import LongestTurn, Row, render
from tests.hostile.victim import slow_commits_in, stalls_in

DURATIONS = {"p50": 1.0, "p99": 5.0, "gap": 20.0}
FINE = {"without_receipt": 0, "lost": 0, "repeated": 0, "is_in_order": True}


def row(**changes: Any) -> Row:  # noqa: ANN401 - any field of a row
    values: dict[str, Any] = {
        "name": "frames-pings",
        "text": "A flood of PINGs.",
        "acts": 7,
        "experience": {"messages": 400, "receipt": DURATIONS, "receive": DURATIONS},
        "gap_ms": 20.0,
        "baseline_gap_ms": 15.0,
        "stalls": 0,
        "slow_commits": 1,
        "slow_metadata_commits": 2,
        "longest_turn": None,
        "resident_bytes": (1 << 26, 1 << 27, 1 << 26),
        "descriptors": (22, 22),
        "left_behind": [],
        "account": FINE,
        "log_bytes": 0,
        "load_average": 0.5,
        "starved": 0.05,
    }
    return Row(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "ok"),
        ({"gap_ms": 115.0}, "ok"),
        ({"gap_ms": 116.0}, "late"),
        ({"gap_ms": 3000.0, "expected_gap_ms": 3000.0, "stalls": 1}, "ok"),
        ({"stalls": 2}, "stall"),
        ({"stalls": 2, "starved": 0.3}, "late"),
        ({"stalls": 2, "longest_turn": LongestTurn(140.0, 99.0, "", 99.0)}, "late"),
        ({"stalls": 2, "longest_turn": LongestTurn(140.0, 101.0, "", 101.0), "starved": 0.3}, "stall"),
        ({"stalls": 0, "longest_turn": LongestTurn(140.0, 101.0, "", 101.0)}, "stall"),
        ({"stalls": 1, "longest_turn": LongestTurn(40.0, 39.0, "", 120.0)}, "stall"),
        ({"stalls": 1, "longest_turn": LongestTurn(40.0, 39.0, "", 120.0), "starved": 0.3}, "late"),
        ({"gap_ms": 3200.0, "expected_gap_ms": 3000.0, "stalls": 1}, "stall"),
        ({"stalls": None}, "ok"),
        ({"left_behind": ["connections 2 → 3"]}, "left something"),
        ({"account": {**FINE, "lost": 3}}, "lost 3"),
        ({"account": {**FINE, "without_receipt": 1}, "stalls": 1}, "without_receipt 1, stall"),
        ({"account": {**FINE, "repeated": 2, "is_in_order": False}}, "repeated 2, disorder"),
        ({"account": {**FINE, "repeated": 2, "is_in_order": False}, "repeats": True}, "ok, repeated 2"),
    ],
)
def test_verdict(changes: dict[str, Any], verdict: str) -> None:
    assert row(**changes).verdict == verdict


def test_a_row_is_one_line_of_the_table() -> None:
    made = row(longest_turn=LongestTurn(14.4, 12.0, "", 13.0))
    line = next(line for line in render([made]).splitlines() if line.lstrip().startswith("frames-pings"))
    cells = "frames-pings 7 1.0 / 5 / 20 1.0 / 5 / 20 0 14 / 13 / 12 1 / 2 5% 64 / 128 / 64 22 / 22 ok"
    assert " ".join(line.split()) == cells


def test_the_longest_gap_is_between_two_neighbours() -> None:
    assert longest_gap([]) == longest_gap([3.0]) == 0.0
    assert longest_gap([4.0, 1.0, 1.5]) == 2.5


def test_turns_above_the_bound_are_counted() -> None:
    sample = 'magnetar_loop_stall_seconds_bucket{{cluster="c",le="{}"}} {}\n'
    text = "".join(
        sample.format(*each) for each in (("0.05", "7.0"), ("0.1", "9.0"), ("0.25", "10.0"), ("+Inf", "12.0"))
    )
    assert stalls_in(text) == 3
    assert stalls_in("pulsar_rate_in 1.0\n") is None, "not known"


def test_slow_commits_are_counted_apart() -> None:
    sample = 'magnetar_storage_commit_seconds_bucket{{cluster="c",le="{}"}} {}\n'
    text = "".join(sample.format(*each) for each in (("0.1", "9.0"), ("+Inf", "11.0")))
    assert slow_commits_in(text) == 2
    assert stalls_in(text) is None


def test_every_family_is_in_the_catalogue() -> None:
    assert {name.partition("-")[0] for name in BEHAVIOURS} == set(attacks.__all__)
    assert len(BEHAVIOURS) >= 100
