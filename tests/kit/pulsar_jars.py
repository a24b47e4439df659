"""The jars of Apache Pulsar's broker from Maven Central, downloaded once and cached outside of the source tree."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.ops.java import HINT, java_command
from tests.kit.child import ChildProcess
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

PULSAR_VERSION = "4.0.7"
"""A release with all jars at Maven Central; later ones lack some."""

CACHE_VARIABLE = "MAGNETAR_CACHE"
"""Environment variable with the directory for downloads; default: ~/.cache/magnetar."""

RESOLVE_TIMEOUT_S = 900.0
"""Time limit in seconds for downloading 315 jars, 231 MB, on a slow network."""

COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

ADMIN_TOOL_VERSION = "4.0.8"
"""Release of ``pulsar-admin``, which works with the jars of PULSAR_VERSION; Maven Central lacks that release of it."""

BROKER = f"""\
    <dependency>
      <groupId>org.apache.pulsar</groupId>
      <artifactId>pulsar-broker</artifactId>
      <version>{PULSAR_VERSION}</version>
      <exclusions>
        <exclusion> <!-- the client of etcd: large, and the metadata here is in RocksDB -->
          <groupId>org.apache.pulsar</groupId>
          <artifactId>jetcd-core-shaded</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
"""

ADMIN_TOOL = "".join(
    f"""\
    <dependency>
      <groupId>org.apache.pulsar</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{ADMIN_TOOL_VERSION}</version>
      <exclusions>
        <exclusion> <!-- the jars of the broker have the rest -->
          <groupId>*</groupId>
          <artifactId>*</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
"""
    for artifact in ("pulsar-client-tools", "pulsar-client-tools-api")
)

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>magnetar.tests</groupId>
  <artifactId>pulsar</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""


class PulsarUnavailableError(Exception):
    """Apache Pulsar cannot be run here; the text has the reason and a hint."""


def java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the java executable for Pulsar; raises PulsarUnavailableError if there is none."""
    command = java_command(environment)
    if command is None:
        message = f"Apache Pulsar runs on Java: {HINT}"
        raise PulsarUnavailableError(message)
    return command


def pulsar_jars(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with the jars of the broker; download them if necessary.

    The directory gets its name after the download is complete, so an interrupted download leaves no incomplete
    directory. Raises PulsarUnavailableError if Maven is missing or does not find all jars.
    """
    return _cached(f"pulsar-{PULSAR_VERSION}", BROKER, environment)


def admin_tool_jars(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with the two jars that ``pulsar-admin`` needs beside ``pulsar_jars``, which see."""
    return _cached(f"pulsar-admin-{ADMIN_TOOL_VERSION}", ADMIN_TOOL, environment)


def _cached(name: str, dependencies: str, environment: Mapping[str, str]) -> Path:
    cache = Path(environment.get(CACHE_VARIABLE) or Path.home() / ".cache" / "magnetar")
    jars = cache / name
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn", path=environment.get("PATH"))
    if maven is None:
        message = (
            f"the jars of Apache Pulsar, {name}, are not in {cache}, and there is no Maven to fetch them: "
            "install it (apt install maven)"
        )
        raise PulsarUnavailableError(message)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resolving-", dir=cache) as temporary:
        fetched = _resolve(maven, Path(temporary), POM.format(dependencies=dependencies))
        try:
            fetched.rename(jars)
        except OSError:
            if not jars.is_dir():  # otherwise another process was faster, with the same jars
                raise
    return jars


def _resolve(maven: str, directory: Path, project: str) -> Path:
    """Copy the jars of ``project`` below ``directory`` with Maven and the settings of this machine."""
    pom, jars = directory / "pom.xml", directory / "jars"
    pom.write_text(project)
    options = ["--batch-mode", "--no-transfer-progress", "--file", str(pom)]
    goal = [COPY_DEPENDENCIES, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    process = ChildProcess([maven, *options, *goal], directory, "maven")
    try:
        wait_until(lambda: process.exit_status is not None, RESOLVE_TIMEOUT_S, what="Maven", interval_s=0.2)
    except TimeoutError as error:
        message = f"Maven did not fetch Apache Pulsar within {RESOLVE_TIMEOUT_S:g} s: is there a network?"
        raise PulsarUnavailableError(message) from error
    finally:
        process.kill()
    if process.exit_status != 0 or not jars.is_dir():
        said = [line for line in process.output.read_text(errors="replace").splitlines() if "ERROR" in line]
        message = (
            "Maven could not fetch Apache Pulsar; it needs a network, or a mirror of Maven Central "
            "in its settings.xml. It said:\n" + "\n".join(said[:5])
        )
        raise PulsarUnavailableError(message)
    return jars
