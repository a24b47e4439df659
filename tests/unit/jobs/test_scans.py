"""The directory of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError, StorageError
from magnetar.base.position import Position
from magnetar.jobs.pieces import Piece
from magnetar.jobs.scans import Plan, Records

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.jobs.scans import Scan

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


def complete(scan: Scan) -> None:
    scan.part(0).mkdir()
    (scan.part(0) / "_SUCCESS").touch()


def test_a_job_that_did_not_end_is_continued_with_its_plan(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as records:
        scan = records.begin(plan(9))
    with opened(tmp_path / "state", "jfk", "ewr") as records:
        found = records.unfinished
        assert found is not None
        assert (found.directory, found.plan) == (scan.directory, plan(9))
        assert not found.has(0)
        found.part(0).mkdir()
        assert not found.has(0), "Spark has not written all files"
        (found.part(0) / "_SUCCESS").touch()
        assert found.has(0)
        found.finish()
    with opened(tmp_path / "state") as records:
        assert records.unfinished is None


def test_a_later_run_begins_at_the_ends_of_the_earlier_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as records:
        for end in (9, 12):
            scan = records.begin(plan(end))
            complete(scan)
            scan.finish()
    with opened(tmp_path) as records:
        assert records.ends == {"ewr": {TOPIC: Position(5, 12)}}
        assert [path.parent.name for path in records.parts()] == ["scan-00001", "scan-00002"]


def test_a_joined_scan_replaces_the_others_and_later_ones_follow_it(tmp_path: Path) -> None:
    ends = {"ewr": {TOPIC: Position(5, 12)}}
    with opened(tmp_path) as records:
        records.begin(plan(9)).finish()
        records.begin(plan(12)).finish()
        records.join(ends, complete)
        assert [path.parent.name for path in records.parts()] == ["scan-00003"]
    with opened(tmp_path) as records:
        assert [path.name for path in sorted(tmp_path.glob("scan-*"))] == ["scan-00003"]
        assert (records.ends, records.unfinished) == (ends, None)
        assert records.begin(plan(15)).directory.name == "scan-00004"
        assert records.ends == {"ewr": {TOPIC: Position(5, 15)}}


def test_a_join_that_did_not_end_leaves_no_trace(tmp_path: Path) -> None:
    def fail(target: Scan) -> None:
        complete(target)
        raise OSError

    with opened(tmp_path) as records:
        scan = records.begin(plan(9))
        complete(scan)
        scan.finish()
        with pytest.raises(OSError, match=r"^$"):
            records.join({}, fail)
    with opened(tmp_path) as records:
        assert [path.name for path in sorted(tmp_path.glob("scan-*"))] == ["scan-00001"]
        assert not records.begin(plan(12)).has(0)


def test_scans_that_a_joined_one_replaces_are_removed_after_a_kill(tmp_path: Path) -> None:
    with opened(tmp_path) as records:
        old = records.begin(plan(9))
        old.finish()
        kept = old.directory.rename(tmp_path / "kept")
        (tmp_path / "scan-00001").mkdir()
        records.join({}, complete)
    kept.rename(tmp_path / "scan-00001")
    with opened(tmp_path) as records:
        assert [path.parent.name for path in records.parts()] == ["scan-00002"]
        assert not (tmp_path / "scan-00001").exists()


def test_two_runs_do_not_use_a_directory_at_once(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StorageError, match="is in use by process"):
        opened(tmp_path)


@pytest.mark.parametrize("clusters", [("ewr", "lga"), ("ewr", "jfk", "lga")])
def test_a_directory_belongs_to_the_same_clusters_and_topics(tmp_path: Path, clusters: tuple[str, ...]) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(ConfigurationError, match="other clusters or topics"):
        opened(tmp_path, *clusters)
