"""The longest turn of each phase, without time of waiting for a processor."""

from __future__ import annotations

from bench.loop_turns import Phase, longest_turn, tables
from bench.watched_broker import Turn, turn_of

TURNS = [
    Turn(at_s=9.9, seconds=0.5, waited_s=0.0, processor_s=0.5, stolen_s=0.0, where="before"),
    Turn(at_s=10.0, seconds=0.010, waited_s=0.0, processor_s=0.009, stolen_s=0.0, where="short"),
    Turn(at_s=11.0, seconds=0.090, waited_s=0.085, processor_s=0.004, stolen_s=0.0, where="starved"),
    Turn(at_s=12.0, seconds=0.035, waited_s=0.005, processor_s=0.011, stolen_s=0.0, where="long < caller"),
    Turn(at_s=13.0, seconds=0.5, waited_s=0.0, processor_s=0.5, stolen_s=0.0, where="behind"),
]


def test_a_phase_has_the_turns_that_ended_in_it() -> None:
    assert longest_turn("work", 2.5, TURNS, began=10.0, ended=13.0) == Phase(
        "work", 2.5, 30.0, 5.0, 11.0, 1, "long < caller"
    )


def test_time_that_the_host_took_is_waiting_and_no_processor_time() -> None:
    turn = turn_of(1.0, seconds=0.1, waited_s=0.01, processor_s=0.09, taken_s=0.06, where="")
    assert (turn.waited_s, turn.processor_s, turn.stolen_s) == (0.07, 0.03, 0.06)


def test_time_that_the_host_took_while_the_loop_had_no_processor_counts_once() -> None:
    turn = turn_of(1.0, seconds=0.1, waited_s=0.07, processor_s=0.03, taken_s=0.06, where="")
    assert (turn.waited_s, turn.processor_s, turn.stolen_s) == (0.1, 0.0, 0.03)


def test_a_phase_without_long_turns_says_so() -> None:
    assert longest_turn("idle", 1.0, TURNS, began=20.0, ended=21.0) == Phase("idle", 1.0, 0.0, 0.0, 0.0, 0, "")


def test_the_tables_have_a_row_for_each_figure() -> None:
    figures = {"seconds": 1.0, "longest_ms": 3.0, "waited_ms": 0.0, "processor_ms": 2.0, "too_long": 0}
    phase = {"name": "work", **figures, "where": "a < b"}
    start = {"after": "kill -9", "seconds": 1.0, "resident_mb": 90.0}
    latency = dict.fromkeys(("p50", "p90", "p99", "max"), 1.0)
    found = {"topics": 10, "turns": [phase], "publishing_ms": {"alone": latency}, "on_disk": 5, "starts": [start]}
    assert [table.row_count for table in tables(found)] == [1, 1, 1]
    assert list(tables(found)[0].columns[5].cells) == ["2 ms"]
    assert list(tables(found)[0].columns[6].cells) == ["a"]
