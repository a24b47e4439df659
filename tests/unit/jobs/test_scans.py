"""The directory of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import Position
from magnetar.jobs.pieces import Piece
from magnetar.jobs.scans import Plan, Records

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "persistent://public/default/orders"
SELECTION: dict[str, list[str]] = {"topics": [TOPIC], "namespaces": []}


def opened(directory: Path, *clusters: str) -> Records:
    return Records(directory, "audit", {"clusters": clusters or ("ewr", "jfk"), **SELECTION})


def plan(end: int) -> Plan:
    return Plan(
        ends={"ewr": {TOPIC: Position(5, end)}},
        delivered={"ewr": {TOPIC: {"jfk": Position(5, end - 1)}}},
        tasks=[[Piece("ewr", TOPIC, Position(5, 0), Position(5, end + 1), end + 1, 1_000)]],
    )


def test_a_job_that_did_not_end_is_continued_with_its_plan(tmp_path: Path) -> None:
    scan = opened(tmp_path / "state").begin(plan(9))
    found = opened(tmp_path / "state", "jfk", "ewr").unfinished
    assert found is not None
    assert (found.directory, found.plan) == (scan.directory, plan(9))
    assert not found.has(0)
    found.part(0).mkdir()
    assert not found.has(0), "Spark has not written all files"
    (found.part(0) / "_SUCCESS").touch()
    assert found.has(0)
    found.finish()
    assert opened(tmp_path / "state").unfinished is None


def test_a_later_run_begins_at_the_ends_of_the_earlier_ones(tmp_path: Path) -> None:
    records = opened(tmp_path)
    for end in (9, 12):
        scan = records.begin(plan(end))
        scan.part(0).mkdir()
        (scan.part(0) / "_SUCCESS").touch()
        scan.finish()
    found = opened(tmp_path)
    assert found.ends == {"ewr": {TOPIC: Position(5, 12)}}
    assert [path.parent.name for path in found.parts()] == ["scan-00001", "scan-00002"]


@pytest.mark.parametrize("clusters", [("ewr", "lga"), ("ewr", "jfk", "lga")])
def test_a_directory_belongs_to_the_same_clusters_and_topics(tmp_path: Path, clusters: tuple[str, ...]) -> None:
    opened(tmp_path)
    with pytest.raises(ConfigurationError, match="other clusters or topics"):
        opened(tmp_path, *clusters)
