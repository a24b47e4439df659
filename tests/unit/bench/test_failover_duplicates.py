from __future__ import annotations

from bench.failover_duplicates import DOWN, MODES, WORKLOADS, Sample, rows, spread


def test_a_spread_is_the_median_and_what_the_rounds_were_between() -> None:
    assert spread([3, 1, 2_000]) == "3 (1-2,000)"
    assert spread([0, 0]) == "0"


def test_every_workload_has_a_line_with_both_modes_side_by_side() -> None:
    samples = [
        Sample(workload.id, mode, acknowledged=1_500, repeated=number * 10 + MODES.index(mode), lost=number % 2)
        for number, workload in enumerate((*WORKLOADS, DOWN))
        for mode in MODES
    ]
    *lines, lost = rows(samples)
    assert lines[0] == ("caught up", "1,500", "0", "1")
    assert lines[-1] == ("one cluster down", "1,500", "40", "41")
    assert len(lines) == 5
    assert lost == ("lost, in all", "", "2", "2")
