"""The directory of an archive, with files that a test writes instead of Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError, StorageError
from magnetar.base.position import Position
from magnetar.jobs.archive.directory import Archive, contents

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOPIC = "persistent://public/default/orders"
PLACE = "topic=persistent%3A%2F%2Fpublic%2Fdefault%2Forders/day=2026-01-02"


def write(archive: Archive, tasks: Iterable[int]) -> None:
    """Write the files of a batch as Spark does."""
    place = archive.stage()
    for task in tasks:
        path = place / PLACE / f"part-{task:05}-8d7f.c000.zstd.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{task}")


def checkpoint(archive: Archive, query: str = "q") -> None:
    archive.checkpoint.mkdir(exist_ok=True)
    (archive.checkpoint / "metadata").write_text(json.dumps({"id": query}))


def found(directory: Path) -> list[str]:
    return [one.path.name for one in contents(directory).files]


def test_committed_files_have_a_name_by_batch_and_task(tmp_path: Path) -> None:
    with Archive(tmp_path / "a", "ewr") as archive:
        checkpoint(archive)
        for batch in (0, 1):
            write(archive, range(2))
            assert not archive.has(batch)
            archive.commit(batch)
            assert archive.has(batch)
    files = contents(tmp_path / "a").files
    assert [(one.topic, one.day) for one in files] == [(TOPIC, "2026-01-02")] * 4
    assert [one.path.name for one in files] == [
        f"000000000{batch}-0000{task}-000.parquet" for batch in (0, 1) for task in (0, 1)
    ]


def test_a_batch_that_was_not_committed_leaves_nothing(tmp_path: Path) -> None:
    with Archive(tmp_path, "ewr") as archive:
        checkpoint(archive)
        write(archive, range(2))
    assert found(tmp_path) == []
    with Archive(tmp_path, "ewr") as archive:
        assert not archive.has(0)
        write(archive, range(1))
        archive.commit(0)
    assert found(tmp_path) == ["0000000000-00000-000.parquet"]


def test_the_files_of_a_committed_batch_are_moved_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Archive(tmp_path, "ewr") as archive:
        checkpoint(archive)
        write(archive, range(1))
        archive.commit(0)
        write(archive, range(3))
        monkeypatch.setattr(archive, "_move", lambda: None)
        archive.commit(1)
        (staged,) = tmp_path.glob(f"_magnetar/staging/*/{PLACE}/part-00000-*.parquet")
        staged.replace(tmp_path / PLACE / "0000000001-00000-000.parquet")
    assert found(tmp_path) == ["0000000000-00000-000.parquet"], "a part of a batch is not shown"
    with Archive(tmp_path, "ewr") as archive:
        assert archive.has(1)
    assert found(tmp_path) == ["0000000000-00000-000.parquet"] + [f"0000000001-0000{n}-000.parquet" for n in range(3)]


def test_the_next_entries_are_those_of_the_newest_batch_that_spark_committed(tmp_path: Path) -> None:
    with Archive(tmp_path, "ewr") as archive:
        assert archive.ends() == {}
        for name in ("commits", "offsets"):
            (archive.checkpoint / name).mkdir(parents=True)
        for batch in range(11):
            offset = {TOPIC: {"next": f"7:{batch}", "tasks": []}}
            (archive.checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
        for batch in range(10):
            (archive.checkpoint / "commits" / str(batch)).write_text("v1\n{}")
            (archive.checkpoint / "commits" / f".{batch}.crc").touch()
        assert archive.ends() == {TOPIC: Position(7, 9)}


def test_schemas_are_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    with Archive(tmp_path, "ewr") as archive:
        archive.keep_schemas({TOPIC: {b"\x00": b"first"}})
        archive.keep_schemas({TOPIC: {b"\x01": b""}, "other": {b"\x00": b"second"}})
        versions = {TOPIC: {b"\x00", b"\x01", b"\x02"}, "other": {b"\x00"}, "new": {b"\x00"}}
        assert archive.unknown(versions) == {TOPIC: {b"\x02"}, "new": {b"\x00"}}
        checkpoint(archive)
        archive.stage()
        archive.commit(0)
    assert contents(tmp_path).schemas == {TOPIC: {b"\x00": b"first", b"\x01": b""}, "other": {b"\x00": b"second"}}


def test_other_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="neither empty nor an archive"):
        Archive(tmp_path, "ewr")
    with pytest.raises(ConfigurationError, match="is no archive\nhint: "):
        contents(tmp_path)
    with Archive(tmp_path / "a", "ewr"), pytest.raises(StorageError, match="in use by process"):
        Archive(tmp_path / "a", "ewr")
    with pytest.raises(ConfigurationError, match="is an archive of ewr, not of jfk"):
        Archive(tmp_path / "a", "jfk")


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    with Archive(tmp_path, "ewr") as archive:
        checkpoint(archive)
        write(archive, range(1))
        archive.commit(3)
        with pytest.raises(StorageError, match="has batch 3, but its checkpoint is at batch 2"):
            archive.has(2)
        checkpoint(archive, "other")
    with pytest.raises(StorageError, match="is not the checkpoint"):
        Archive(tmp_path, "ewr")
