"""Without Apache Pulsar, the kit reports the reason and leaves nothing behind; these tests need no Pulsar."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.pulsar_jars import (
    ADMIN_TOOL_VERSION,
    CACHE_VARIABLE,
    PULSAR_VERSION,
    PulsarUnavailableError,
    admin_tool_jars,
    java,
    pulsar_jars,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_cached_jars_need_no_maven(tmp_path: Path) -> None:
    jars, tool = tmp_path / f"pulsar-{PULSAR_VERSION}", tmp_path / f"pulsar-admin-{ADMIN_TOOL_VERSION}"
    jars.mkdir()
    tool.mkdir()
    assert pulsar_jars({CACHE_VARIABLE: str(tmp_path), "PATH": ""}) == jars
    assert admin_tool_jars({CACHE_VARIABLE: str(tmp_path), "PATH": ""}) == tool


def test_without_maven_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(PulsarUnavailableError, match="apt install maven"):
        pulsar_jars({CACHE_VARIABLE: str(tmp_path), "PATH": ""})


def test_without_java_the_error_says_how_to_get_it() -> None:
    with pytest.raises(PulsarUnavailableError, match="install Java"):
        java({"PATH": ""})


def test_mavens_output_is_in_the_error(tmp_path: Path) -> None:
    cache, programs = tmp_path / "cache", tmp_path / "bin"
    programs.mkdir()
    maven = programs / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no such artifact'\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(PulsarUnavailableError, match="no such artifact"):
        pulsar_jars({CACHE_VARIABLE: str(cache), "PATH": str(programs)})
    assert list(cache.iterdir()) == []


def test_the_jars_appear_when_they_are_complete(tmp_path: Path) -> None:
    cache, programs = tmp_path / "cache", tmp_path / "bin"
    programs.mkdir()
    maven = programs / "mvn"
    fetch = (
        "import pathlib, sys; options = dict(word.split('=') for word in sys.argv if word.startswith('-D')); "
        "jars = pathlib.Path(options['-DoutputDirectory']); jars.mkdir(); (jars / 'a.jar').touch()"
    )
    maven.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{fetch}" "$@"\n')
    maven.chmod(0o755)
    found = pulsar_jars({CACHE_VARIABLE: str(cache), "PATH": str(programs)})
    assert [path.name for path in found.iterdir()] == ["a.jar"]
    assert list(cache.iterdir()) == [found]
