"""The figures of the sizing guide: those of the benchmarks in the README, and the calculations on the page."""

from __future__ import annotations

import re

import pytest

from magnetar.broker.resources.process import DESCRIPTORS_RESERVED
from magnetar.broker.settings.config import BrokerConfig
from tests.guides.page import ROOT, guide

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = guide("sizing").path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("figure", "row", "group"),
    [
        ("2.4 µs", "1 KiB: broker CPU per message, µs", "publish: official client"),
        ("6.13 µs", "1 KiB: broker CPU per entry, µs", "publish: raw"),
        ("122 µs", "64 KiB: broker CPU per entry, µs", "publish: raw"),
        ("4.3 µs", "from backlog: broker CPU per entry, µs", "dispatch"),
        ("8.3 µs", "from the tail, with its publishing: broker CPU per entry, µs", "dispatch"),
        ("77 MB", "resident memory at start, MB", "resources of one broker"),
        ("200 MB", "resident memory with 10,000 topics, a producer each, MB", "resources of one broker"),
        ("1.03 bytes", "on disk per byte published, 1 KiB, stopped, B", "resources of one broker"),
        ("0.595 ms", "1,000 msg/s: p50, ms", "publish latency"),
        ("0.859 ms", "1,000 msg/s: p99, ms", "publish latency"),
        ("24,409 entries", "catch-up of a backlog: entries/s", "geo-replication"),
    ],
)
def test_a_figure_is_that_of_the_benchmark(figure: str, row: str, group: str) -> None:
    table = README.partition(f"\n{group}")[2].partition("\n\n")[0]
    (line,) = (each for each in table.splitlines() if each.strip().startswith(row))
    magnetar = re.split(r" {2,}", line.strip())[2].split(" ")[0]  # its median
    number = figure.split(" ", maxsplit=1)[0]
    assert number in {magnetar, str(round(float(magnetar.replace(",", ""))))}
    assert figure in PAGE


def test_the_latency_between_clusters_is_that_of_the_benchmark() -> None:
    (row,) = re.findall(r"^\| published in one cluster to received in another \| (.*) \|$", README, re.MULTILINE)
    p50, _, p99, _ = row.split(" | ")
    assert f"{p50} ms (median), {p99} ms (99th percentile)" in PAGE


def test_the_calculations_are_right() -> None:
    blocks = [block for block in guide("sizing").blocks if block.language == "python"]
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block.text, block.section, "exec"), {})


def test_the_limits_are_those_of_the_code() -> None:
    fields = BrokerConfig.model_fields
    assert f"`maxConcurrentConnections` is {fields['maxConcurrentConnections'].default:,}" in PAGE
    assert f"`maxHttpServerConnections` and {DESCRIPTORS_RESERVED}" in PAGE
    assert fields["managedLedgerMaxLedgerRolloverTimeMinutes"].default == 4 * 60
    assert 8 * fields["logSizeLimit"].default == 512 << 20
