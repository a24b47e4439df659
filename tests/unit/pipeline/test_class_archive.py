"""The archive of Spark's classes: its place, its options of Java, and failures to make it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.class_archive import archive_path, make_archive, use_archive

if TYPE_CHECKING:
    from pathlib import Path

USES_IT = """
import sys, pathlib
from magnetar.pipeline.class_archive import use_archive
from magnetar.pipeline.driver.launch import start_spark
from magnetar.pipeline.driver.session import SETTINGS
from magnetar.pipeline.driver.settings import SparkSettings

directory = pathlib.Path(sys.argv[2])
classes = use_archive(pathlib.Path(sys.argv[1])) + " -Xshare:on"  # Java ends if it cannot use the archive
session = start_spark("test", SparkSettings("local[1]", directory), directory, SETTINGS, classes=classes)
print(session.range(3).count())
session.stop()
"""


def test_each_installation_of_spark_has_its_own_archive() -> None:
    environment = {"HOME": "/users/ops"}
    first, second = (archive_path(environment, home) for home in ("/spark-1", "/spark-2"))
    assert first != second
    assert {path.parent.as_posix() for path in (first, second)} == {"/users/ops/.cache/magnetar"}
    assert (
        archive_path({**environment, "XDG_CACHE_HOME": "/caches"}, "/spark-1").parent.as_posix() == "/caches/magnetar"
    )


def test_java_gets_no_options_without_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "of two words" / "classes.jsa"
    assert use_archive(path) == ""
    path.parent.mkdir()
    path.touch()
    assert f"-XX:SharedArchiveFile='{path}'" in use_archive(path)


@pytest.mark.parametrize(
    ("program", "reason"), [("no_such_program", "No module named"), ("keyword", "wrote no archive")]
)
def test_a_failure_is_named_and_keeps_the_earlier_archive(tmp_path: Path, program: str, reason: str) -> None:
    path = tmp_path / "classes.jsa"
    path.write_bytes(b"earlier")
    with pytest.raises(ConfigurationError, match=f"cannot be made: .*{reason}"):
        make_archive(path, program)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_spark_uses_an_archive_in_a_directory_of_two_words(tmp_path: Path) -> None:
    path, work = tmp_path / "of two words" / "classes.jsa", tmp_path / "work"
    work.mkdir()
    assert make_archive(path) == path.stat().st_size > 0
    command = [sys.executable, "-W", "ignore", "-c", USES_IT, str(path), str(work)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout.split()[-1] == "3"
