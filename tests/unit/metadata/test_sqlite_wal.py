from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.metadata.local import LocalMetadataStore
from magnetar.metadata.sqlite_wal import write_wal_again
from magnetar.sim.virtual.disk import FaultyDisk
from tests.kit.stored import put

DATABASE = Path("/data/metadata.sqlite")
WAL = Path("/data/metadata.sqlite-wal")


def failed(content: bytes, failing: bytes) -> FaultyDisk:
    """Return a disk with a write-ahead log whose end was written but not synced."""
    disk = FaultyDisk()
    file = disk.open(WAL)
    disk.sync_directory(WAL.parent)
    file.write([content])
    file.sync()
    file.write([failing])
    disk.fail_syncs = True
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    disk.fail_syncs = False
    return disk


def test_frames_that_only_the_page_cache_has_are_on_the_disk_before_they_are_read() -> None:
    disk = failed(b"c" * 500, b"f" * 500)
    write_wal_again(DATABASE, disk)
    file = disk.open(WAL)
    file.write([b"next" * 100])
    file.sync()
    assert bytes(disk.crash(random.Random(1)).nodes[WAL].data) == b"c" * 500 + b"f" * 500 + b"next" * 100


def test_a_log_that_cannot_be_written_is_not_used() -> None:
    disk = failed(b"c" * 500, b"f" * 500)
    disk.fail_renames = True
    with pytest.raises(StorageError, match=r"metadata\.sqlite-wal"):
        write_wal_again(DATABASE, disk)


def test_a_full_disk_is_told_from_a_broken_one() -> None:
    disk = failed(b"c" * 500, b"f" * 500)
    disk.room = 100
    with pytest.raises(DiskFullError):
        write_wal_again(DATABASE, disk)
    disk.room = None
    write_wal_again(DATABASE, disk)
    assert len(disk.nodes[WAL].data) == 1000


def test_without_a_log_there_is_nothing_to_do() -> None:
    disk = FaultyDisk()
    write_wal_again(DATABASE, disk)
    assert not disk.nodes


def test_commits_of_a_killed_broker_survive(tmp_path: Path) -> None:
    running, found = tmp_path / "running", tmp_path / "found"
    running.mkdir()
    store = LocalMetadataStore(running / "metadata.sqlite", SystemClock())
    put(store, "/a", b"1")
    shutil.copytree(running, found)
    store.close()
    log = found / "metadata.sqlite-wal"
    before = log.stat().st_ino
    assert log.stat().st_size
    write_wal_again(found / "metadata.sqlite", SystemFiles())
    assert log.stat().st_ino != before
    again = LocalMetadataStore(found / "metadata.sqlite", SystemClock())
    stored = again.get("/a")
    again.close()
    assert stored is not None
    assert stored.value == b"1"
