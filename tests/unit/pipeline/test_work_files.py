"""Temporary directories of killed processes are removed by the next process."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from magnetar.base.errors import StorageError
from magnetar.pipeline import work_files
from magnetar.pipeline.work_files import WorkDirectory, socket_directory

_CHILD = """
import sys
from pathlib import Path
from magnetar.pipeline.work_files import WorkDirectory
directory = WorkDirectory(Path(sys.argv[1]))
(directory.path / "shuffle").mkdir()
(directory.path / "shuffle" / "block").write_text("x")
print(directory.path, flush=True)
sys.stdin.read()
"""


def test_a_directory_is_removed_when_it_is_closed(tmp_path: Path) -> None:
    with WorkDirectory(tmp_path / "work") as directory:
        (directory.path / "file").write_text("x")
    assert list((tmp_path / "work").iterdir()) == []


def test_only_directories_of_ended_processes_are_removed(tmp_path: Path) -> None:
    others = tmp_path / "magnetar-0"
    others.mkdir()
    (tmp_path / "notes").write_text("x")
    command = [sys.executable, "-c", _CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = tmp_path / process.stdout.readline().strip()
        with WorkDirectory(tmp_path) as directory:
            assert left.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert left.is_dir()
    with WorkDirectory(tmp_path) as directory:
        assert sorted(tmp_path.iterdir()) == sorted([directory.path, others, tmp_path / "notes"])


def test_sockets_go_elsewhere_where_their_names_would_be_too_long() -> None:
    short = Path("/tmp/magnetar-1000/magnetar-work-12345678")
    assert socket_directory(short) == short
    assert socket_directory(Path("/var") / ("x" * 60)) == Path(tempfile.gettempdir())


def test_a_parent_that_belongs_to_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert work_files.default_parent().stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr("os.getuid", lambda: 12345)
    (tmp_path / "magnetar-12345").mkdir()
    with pytest.raises(StorageError, match="belongs to another user"):
        work_files.default_parent()
