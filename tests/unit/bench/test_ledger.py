"""The benchmark of the log: a small form of each measurement."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bench.ledger import KIB, MIB, Scale, appends, reads, recovery, rows

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Scale(rounds=2, append_bytes=MIB, recovery_entries=3_000)


def test_appends_are_compared_with_the_plain_loop(tmp_path: Path) -> None:
    figures = asyncio.run(appends(tmp_path / "appends", 100 * KIB, SMALL))
    assert figures["entries_per_s"] * 100 * KIB < figures["mb_per_s"] * 1e6
    assert figures["share_of_plain"] > 0
    assert 1 <= figures["bytes_on_disk_per_byte"] < 1.1


def test_all_entries_are_read(tmp_path: Path) -> None:
    figures = asyncio.run(reads(tmp_path / "reads", KIB, SMALL))
    assert min(figures.values()) > 0


@pytest.mark.parametrize("per_run", [1, 100], ids=["with a summary", "without a summary"])
def test_a_topic_is_opened_after_a_kill_and_after_a_stop(per_run: int, tmp_path: Path) -> None:
    figures = asyncio.run(recovery(tmp_path / "recovery", SMALL, per_run))
    assert sorted(figures) == [
        "killed_store_s_per_million",
        "killed_topic_s_per_million",
        "stopped_store_s_per_million",
        "stopped_topic_s_per_million",
    ]


def test_the_table_compares_appends_with_the_target() -> None:
    found = {"appends of 1 KiB": {"entries_per_s": 123_456.7, "share_of_plain": 0.695}}
    assert list(rows(found)) == [
        ("appends of 1 KiB: entries per s", "123,457", ""),
        ("appends of 1 KiB: share of plain", "0.695", "missed: at least 0.7"),
    ]
