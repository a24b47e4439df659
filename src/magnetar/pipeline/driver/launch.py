"""The start of Spark for the replication and for batch jobs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from magnetar.base.errors import ConfigurationError
from magnetar.base.logs.rotated_output import RotatedOutput
from magnetar.pipeline.class_archive import installed_archive, use_archive
from magnetar.pipeline.driver.interpreter import cluster_python, local_python
from magnetar.pipeline.driver.package import check_package
from magnetar.pipeline.driver.settings import combine, executor_python, parse_defaults
from magnetar.pipeline.work_files import socket_directory, spark_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.pipeline.driver.settings import CommandSettings, SparkSettings

LOCAL_MASTER = "local[*]"

LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

_STANDARD = (1, 2)
"""File descriptors of standard output and standard error."""


def start_spark(
    name: str, options: SparkSettings, work_dir: Path, command: CommandSettings, classes: str | None = None
) -> SparkSession:
    """Start Spark with the files of the driver in ``work_dir``, or connect to the master in ``options``.

    ``classes`` has options of Java for the archive of classes; None: it is used if there is one. Spark's own output
    goes to the log of the options. Raises ConfigurationError for settings that the command cannot have, for an
    unsuitable package, and if Spark does not start.
    """
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    master = options.master or LOCAL_MASTER
    defaults = _defaults(os.environ)
    if options.package is not None:
        check_package(options.package)
    java_files = work_dir / "java"  # files that libraries leave after a kill are removed with the others
    java_files.mkdir()
    if classes is None:
        classes = use_archive(installed_archive(os.environ))
    java = f"{classes} -Dlog4j2.configurationFile={LOGGING} -Djava.io.tmpdir={socket_directory(java_files)}"
    settings = {"spark.sql.warehouse.dir": spark_path(work_dir / "warehouse")}
    settings |= combine(command, options, defaults, java)
    if options.is_local:
        settings["spark.python.unix.domain.socket.dir"] = str(socket_directory(work_dir))
        os.environ |= _environment(work_dir) | local_python(work_dir / "bin") | {"SPARK_LOCAL_IP": "127.0.0.1"}
    else:
        python = executor_python(options, defaults, os.environ)
        os.environ |= _environment(work_dir) | cluster_python(python, work_dir / "bin")
    return _session(f"magnetar {name}", master, settings, options.log)


def _session(name: str, master: str, settings: Mapping[str, str], spark_log: Path | None) -> SparkSession:
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with output_to(spark_log):
            session = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        message = f"Spark does not start on {master}: {reason}\nhint: {spark_log or 'its output'} may tell more"
        raise ConfigurationError(message) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            # Spark replaces the signal handler; restore the command's.
            signal.signal(signal.SIGINT, on_interrupt)
    return session


@contextmanager
def output_to(log: Path | None) -> Iterator[None]:
    """Send the output of processes that are started in the block to ``log``, which is rotated."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    output = RotatedOutput(log)
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(number) for number in _STANDARD]
    for number in _STANDARD:
        os.dup2(output.sink, number)
    output.close()
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        for number, old in zip(_STANDARD, kept, strict=True):
            os.dup2(old, number)
            os.close(old)


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that Spark reads from ``spark-defaults.conf``."""
    directory = environment.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    path = Path(directory, "spark-defaults.conf")
    return parse_defaults(path.read_text()) if path.is_file() else {}


def _environment(work_dir: Path) -> dict[str, str]:
    """Return Spark's environment variables of the driver."""
    return {
        "SPARK_LOCAL_DIRS": str(work_dir),
        # Spark warns about each new version of pandas, which is not used here.
        "PYTHONWARNINGS": "ignore::FutureWarning",
    }
