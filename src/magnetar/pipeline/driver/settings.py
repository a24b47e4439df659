"""Settings of Spark: those of the commands, and those of an operator. Pure.

A command has settings that it relies on, which nothing overrides, and settings that it prefers. An operator overrides
preferred ones with ``--conf``, or with ``spark-defaults.conf`` of ``SPARK_CONF_DIR``, as for other programs of Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
ARCHIVES = "spark.archives"
EXECUTOR_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
EXECUTOR_PYTHON = "spark.pyspark.python"

PACKAGE_DIRECTORY = "magnetar-package"
"""Name of the directory, in the working directory of an executor, into which Spark unpacks the package."""

_FIXED = {
    "spark.master": "use --master",
    "spark.app.name": "the command sets it",
    "spark.remote": "Spark Connect is not supported; use --master",
    "spark.submit.deployMode": "the driver is the command itself",
}
"""Settings that no command takes, with hints."""

_LOCAL_MASTER = re.compile(r"local(\[[^]]*])?")
_CONTINUED = re.compile(r"\\\r?\n[ \t]*")
_PROPERTY = re.compile(r"(?P<key>spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The options of all commands that use Spark."""

    master: str | None = None
    """Spark master; None: this process's own Java virtual machine."""
    work_dir: Path | None = None
    """Directory of Spark's temporary files; None: a temporary directory."""
    log: Path | None = None
    """File of Spark's own output, which is rotated; None: that of this process."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of the operator (``--conf``)."""
    package: Path | None = None
    """Archive that is unpacked on executors (``magnetar pipeline package``); None: they have Magnetar."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run in the driver's own Java virtual machine."""
        return self.master is None or is_local(self.master)


IN_THIS_PROCESS = SparkSettings()
"""Spark runs in the Java virtual machine of the driver."""


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """The settings of a command."""

    required: Mapping[str, str]
    """Settings that it relies on."""
    preferred: Mapping[str, str]
    """Settings that an operator may override."""


def is_local(master: str) -> bool:
    """Return whether tasks run in the driver's own Java virtual machine."""
    return _LOCAL_MASTER.fullmatch(master) is not None


def parse_conf(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``key=value`` texts; raises ConfigurationError for another form."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            message = f"--conf: {text!r} is not of the form spark.KEY=VALUE"
            raise ConfigurationError(message)
        found[key] = value
    return found


def parse_defaults(text: str) -> dict[str, str]:
    """Return the settings in the text of a ``spark-defaults.conf``."""
    lines = (line.strip() for line in _CONTINUED.sub("", text).splitlines())
    found = (_PROPERTY.fullmatch(line) for line in lines)
    return {each["key"]: each["value"] for each in found if each is not None}


def combine(
    command: CommandSettings, options: SparkSettings, defaults: Mapping[str, str], java_options: str
) -> dict[str, str]:
    """Return the settings of an application, except those that Spark reads from ``defaults`` itself.

    ``java_options`` are added to those of the operator or the command. Raises ConfigurationError for a value that the
    command cannot have.
    """
    for key, value in options.conf.items():
        if key in _FIXED:
            message = f"--conf: {key} cannot be set\nhint: {_FIXED[key]}"
            raise ConfigurationError(message)
        required = command.required.get(key, value)
        if value != required:
            message = f"--conf: {key} cannot be {value}: the command needs {required}"
            raise ConfigurationError(message)
    operators = {**defaults, **options.conf}
    preferred = {key: value for key, value in command.preferred.items() if key not in operators}
    found = {**preferred, **options.conf, **command.required}
    found[JAVA_OPTIONS] = f"{java_options} {operators.get(JAVA_OPTIONS, preferred.get(JAVA_OPTIONS, ''))}".strip()
    if options.package is not None:
        archive = f"{options.package.absolute()}#{PACKAGE_DIRECTORY}"
        found[ARCHIVES] = ",".join(filter(None, [archive, operators.get(ARCHIVES, "")]))
        paths = [PACKAGE_DIRECTORY, operators.get(EXECUTOR_PYTHON_PATH, "")]
        found[EXECUTOR_PYTHON_PATH] = ":".join(filter(None, paths))
    return found


def executor_python(options: SparkSettings, defaults: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the command that starts Python on executors of a cluster, and on the driver for Spark's own calls.

    Raises ConfigurationError for a relative path, which Spark would have to find on the driver, too.
    """
    found = (
        options.conf.get(EXECUTOR_PYTHON)
        or environment.get("PYSPARK_PYTHON")
        or defaults.get(EXECUTOR_PYTHON)
        or "python3"
    )
    if "/" in found and not found.startswith("/"):
        message = (
            f"PYSPARK_PYTHON: {found} is a relative path, which Spark would use on the driver, too"
            "\nhint: name a command such as python3.11, or an absolute path; --package ships packages to it"
        )
        raise ConfigurationError(message)
    return found
