"""Check of the machine's Java, which Spark needs.

The module uses the standard library only, because the Makefile runs it before the dependencies are installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_VERSION_MIN = 17
"""Lowest major version of Java that Spark 4 supports."""

VERSION_TIMEOUT_SECONDS = 30.0
"""Timeout of ``java -version``."""

HINT = (
    f"install Java {JAVA_VERSION_MIN} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), "
    "or point JAVA_HOME at one"
)

_VERSION = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?')


def major_version(text: str) -> int | None:
    """Return the major version from the output of ``java -version`` (8 for 1.8); None if it contains none."""
    match = _VERSION.search(text)
    if match is None:
        return None
    first = int(match["first"])
    return int(match["second"]) if first == 1 and match["second"] else first


def java_command(environment: Mapping[str, str]) -> str | None:
    """Return the path of the java that Spark starts: from JAVA_HOME, else from the PATH; None without one."""
    home = environment.get("JAVA_HOME")
    if home:
        command = Path(home, "bin", "java")
        return str(command) if os.access(command, os.X_OK) else None
    return shutil.which("java", path=environment.get("PATH"))


def require_java(environment: Mapping[str, str]) -> int:
    """Return Java's major version; raises ConfigurationError if there is no java or it is too old."""
    command = java_command(environment)
    if command is None:
        where = f"in JAVA_HOME={environment['JAVA_HOME']}" if environment.get("JAVA_HOME") else "on the PATH"
        message = f"the pipeline runs on Spark, which needs Java {JAVA_VERSION_MIN} or newer: no java {where}"
        raise ConfigurationError(message)
    try:
        said = subprocess.run(  # noqa: S603 - the machine's own java
            [command, "-version"], capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{command} does not run: {error}"
        raise ConfigurationError(message) from error
    version = major_version(said.stderr + said.stdout)
    if version is None or version < JAVA_VERSION_MIN:
        found = "of an unknown version" if version is None else f"Java {version}"
        message = f"the pipeline runs on Spark, which needs Java {JAVA_VERSION_MIN} or newer: {command} is {found}"
        raise ConfigurationError(message)
    return version


def main() -> int:
    """Return exit code 0 if Java is suitable; otherwise print the error and a hint, and return 1."""
    try:
        require_java(os.environ)
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\nhint: {HINT}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
