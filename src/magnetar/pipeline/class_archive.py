"""The archive of Spark's classes, with which Java starts Spark in half of the processor time.

Java maps the classes in the archive into its memory, instead of reading and checking those of the jars (class data
sharing, JEP 350). It ignores an archive that another Java made, or that was made of other jars.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.find_spark_home import _find_spark_home

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

TRAINING: Final = "magnetar.pipeline.driver.training"
"""The program whose classes are archived."""

TIMEOUT_S: Final = 300.0
"""Maximum time to make an archive, which takes some 20 s."""

_QUIET: Final = "-Xlog:cds*=off"
"""Java would print on the output of the command why it ignores an archive."""


def archive_path(environment: Mapping[str, str], spark_home: str) -> Path:
    """Return the place of the archive of the jars in ``spark_home``, in the user's directory for caches."""
    caches = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/"), ".cache")
    name = hashlib.sha256(os.fsencode(Path(spark_home).resolve())).hexdigest()[:16]
    return Path(caches, "magnetar", f"spark-classes-{name}.jsa")


def installed_archive(environment: Mapping[str, str]) -> Path:
    """Return the place of the archive of the Spark that commands use."""
    return archive_path(environment, _find_spark_home())


def use_archive(path: Path) -> str:
    """Return options of Java to use an archive; none if it does not exist."""
    return f"-XX:SharedArchiveFile={shlex.quote(str(path))} {_QUIET}" if path.is_file() else ""


def write_archive(path: Path) -> str:
    """Return options of Java to write an archive at its exit."""
    return f"-XX:ArchiveClassesAtExit={shlex.quote(str(path))} {_QUIET}"


def make_archive(path: Path, program: str = TRAINING) -> int:
    """Make the archive of a program's classes at ``path``, in place of an earlier one; return its size in bytes.

    Raises ConfigurationError if Spark or Java does not do its part, and OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.new")
    try:
        _train(program, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # Java would use a file that a power loss has damaged
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path.stat().st_size


def _train(program: str, path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", program, str(path)]
    try:
        ended = subprocess.run(  # noqa: S603 - a program of this package
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        message = f"Spark has not ended in {TIMEOUT_S:.0f} s, so there is no archive of its classes"
        raise ConfigurationError(message) from None
    if ended.returncode or not path.is_file():
        reason = (ended.stderr.strip() or ended.stdout.strip() or "Java wrote no archive").splitlines()[-1]
        message = f"the archive of Spark's classes cannot be made: {reason}"
        raise ConfigurationError(message)
