"""The commands with which Spark starts Python: on the driver, in local mode, and on executors."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_WITHOUT_ARCHIVES = """\
# Spark puts archives first on the path of modules. They have no compiled ones, and their directories take memory.
set -f
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        "$SPARK_HOME"/python/lib/* | "$SPARK_HOME"/jars/*) ;;
        *) kept=${kept:+$kept:}$entry ;;
    esac
done
export PYTHONPATH=$kept
"""
"""Commands after which Python finds the modules that the driver's Python finds."""


def local_python(directory: Path) -> dict[str, str]:
    """Return the variables with which Spark starts the Python of this process, by a script in ``directory``.

    Python is started without the script if the file system does not execute files.
    """
    script = directory / "python"
    _write(script)
    command = str(script) if os.access(script, os.X_OK) else sys.executable
    return {"PYSPARK_PYTHON": command, "PYSPARK_DRIVER_PYTHON": command}


def cluster_python(command: str, directory: Path) -> dict[str, str]:
    """Return the variables with which ``command`` starts Python on executors, and this process's Python on the driver.

    Spark starts a data source on the driver with the command for executors. A command without a path is therefore put
    into ``directory``, which the driver's Java virtual machine searches first. A path is used as it is. Raises
    ConfigurationError for one that does not exist on the driver.
    """
    own = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": command}
    if command.startswith("/"):
        if not os.access(command, os.X_OK):
            message = f"PYSPARK_PYTHON: {command} does not exist on the driver, which Spark needs as well"
            raise ConfigurationError(message)
        return own
    _write(directory / command)
    return own | {"PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _write(script: Path) -> None:
    """Write a script that starts the Python of this process."""
    needs_archives = any(map(os.path.isfile, sys.path))  # PySpark or Py4J is not installed
    path = "" if needs_archives else _WITHOUT_ARCHIVES
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\n{path}exec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o755)
