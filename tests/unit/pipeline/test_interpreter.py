"""The commands with which Spark starts Python."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.driver.interpreter import cluster_python, local_python

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARCHIVES = "/spark 4/python/lib/pyspark.zip:/spark 4/python/lib/py4j-0-src.zip:/spark 4/jars/spark-core.jar"


def run(command: str, program: str, *arguments: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [command, "-c", program, *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def path_of_modules(command: str, entries: str) -> str:
    """Return PYTHONPATH of Python, if Spark starts the command with ``entries``."""
    environment = {"SPARK_HOME": "/spark 4", "PYTHONPATH": entries}
    return run(command, "import os; print(os.environ['PYTHONPATH'])", environment=environment).rstrip("\n")


def test_python_on_the_driver_does_not_use_the_archives_of_spark(tmp_path: Path) -> None:
    environment = local_python(tmp_path / "bin")
    command = environment["PYSPARK_PYTHON"]
    assert environment["PYSPARK_DRIVER_PYTHON"] == command
    assert path_of_modules(command, f"{ARCHIVES}:/own/*:/spark 4/python:/spark/other.zip") == (
        "/own/*:/spark 4/python:/spark/other.zip"
    )
    assert path_of_modules(command, ARCHIVES) == ""
    found = run(command, "import sys; print(sys.executable, *sys.argv[1:])", "a b", environment={})
    assert found == f"{sys.executable} a b\n"


def test_archives_that_the_driver_uses_itself_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "pyspark.zip"
    archive.touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
    assert path_of_modules(local_python(tmp_path / "bin")["PYSPARK_PYTHON"], ARCHIVES) == ARCHIVES


def test_the_command_of_executors_is_this_python_on_the_driver(tmp_path: Path) -> None:
    environment = cluster_python("python9.9", tmp_path / "bin")
    assert (environment["PYSPARK_PYTHON"], environment["PYSPARK_DRIVER_PYTHON"]) == ("python9.9", sys.executable)
    found = run("python9.9", "import sys; print(sys.executable, *sys.argv[1:])", "a b", environment=environment)
    assert found == f"{sys.executable} a b\n"


def test_a_path_to_python_must_exist_on_the_driver(tmp_path: Path) -> None:
    assert cluster_python(sys.executable, tmp_path)["PYSPARK_PYTHON"] == sys.executable
    with pytest.raises(ConfigurationError, match="PYSPARK_PYTHON: /none/python does not exist on the driver"):
        cluster_python("/none/python", tmp_path)
