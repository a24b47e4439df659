from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.ops.java import JAVA_VERSION_MIN, major_version, require_java

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("no such thing", None),
    ],
)
def test_reads_the_major_version(said: str, version: int | None) -> None:
    assert major_version(said) == version


def java_home(directory: Path, said: str) -> dict[str, str]:
    command = directory / "bin" / "java"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\necho '{said}' >&2\n", encoding="utf-8")
    command.chmod(0o755)
    return {"JAVA_HOME": str(directory)}


def test_accepts_the_oldest_java_that_will_do(tmp_path: Path) -> None:
    assert require_java(java_home(tmp_path, f'openjdk version "{JAVA_VERSION_MIN}.0.1"')) == JAVA_VERSION_MIN


def test_names_what_is_too_old(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"bin/java is Java 11$"):
        require_java(java_home(tmp_path, 'openjdk version "11.0.2"'))


@pytest.mark.parametrize(
    ("environment", "where"), [({"PATH": "/nowhere"}, "on the PATH"), ({"JAVA_HOME": "/nowhere"}, "in JAVA_HOME")]
)
def test_says_where_java_is_missing(environment: dict[str, str], where: str) -> None:
    with pytest.raises(ConfigurationError, match=where):
        require_java(environment)
