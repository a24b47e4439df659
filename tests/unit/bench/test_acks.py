"""The benchmark of acknowledgements: consistency of its figures."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console

from bench.acks import ACKS_PER_FLUSH, Line, measure, table

if TYPE_CHECKING:
    from pathlib import Path


def test_each_line_is_of_its_own_acknowledgements(tmp_path: Path) -> None:
    first, second = asyncio.run(measure(tmp_path, (2 * ACKS_PER_FLUSH, 5 * ACKS_PER_FLUSH)))
    assert (first.acknowledged, second.acknowledged) == (200, 500)
    assert 0 < first.ranges <= 200 < second.ranges <= 500
    assert 0 < first.largest_delta_bytes <= ACKS_PER_FLUSH * first.bytes_per_ack * 2
    assert first.checkpoint_bytes_per_ack > 0 == second.checkpoint_bytes_per_ack


def test_the_table_has_a_line_for_each() -> None:
    lines = [Line(1_000, 999, 38_417.2, 11.95, 32.25, 11.31, 2_390, 0.1204)]
    console = Console(file=StringIO(), width=118)
    console.print(table(lines))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    for figure in ("1,000", "999", "38,417", "11.9", "32.2", "11.3", "2,390 B", "120.4 ms"):
        assert figure in text
