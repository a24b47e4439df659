from __future__ import annotations

from bench.metadata_latency import GROUPS, Times, rows


def test_times_are_summarized_in_milliseconds() -> None:
    times = Times.of("policy", GROUPS[0], [0.001 * number for number in range(1, 102)])
    assert (times.median, times.p99, times.longest) == (51.0, 100.0, 101.0)
    assert list(rows([times])) == [("policy", "one call", "51.0", "100.0", "101.0")]
