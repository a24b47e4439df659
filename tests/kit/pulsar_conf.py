"""The configuration files of Apache Pulsar's source release, from Maven Central."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING
from zipfile import ZipFile

from tests.kit.pulsar_jars import PULSAR_VERSION, PulsarUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
ARTIFACT = f"org.apache.pulsar:pulsar:{PULSAR_VERSION}:zip:source-release"
TIMEOUT_S = 300.0


def stock_configuration(name: str, directory: Path) -> str:
    """Return the text of ``conf/name``; 12 MB are downloaded once. Raises PulsarUnavailableError."""
    maven = shutil.which("mvn")
    if maven is None:
        message = "Maven is missing: apt install maven"
        raise PulsarUnavailableError(message)
    command = [maven, "--batch-mode", "--quiet", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={directory}"]
    done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        message = f"Maven could not fetch {ARTIFACT}:\n{done.stdout[:1000]}"
        raise PulsarUnavailableError(message)
    (release,) = directory.glob("*-source-release.zip")
    with ZipFile(release) as files:
        return files.read(f"pulsar/conf/{name}").decode()
