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

from pyspark.sql import SparkSession

from magnetar.base.logs.rotated_output import RotatedOutput
from magnetar.pipeline.work_files import socket_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

_STANDARD = (1, 2)
"""File descriptors of standard output and standard error."""


def start_spark(
    name: str, master: str, work_dir: Path, spark_log: Path | None, settings: Mapping[str, str], java_options: str = ""
) -> SparkSession:
    """Start Spark, or connect to ``master``. Spark's own output goes to ``spark_log``, or to that of this process."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    os.environ |= _environment(work_dir, local=master.startswith("local"))
    java_files = work_dir / "java"  # files that libraries leave after a kill are removed with the others
    java_files.mkdir()
    java = f"{java_options} -Dlog4j2.configurationFile={LOGGING} -Djava.io.tmpdir={java_files}".strip()
    all_settings = {
        **settings,
        "spark.driver.extraJavaOptions": java,
        "spark.python.unix.domain.socket.dir": str(socket_directory(work_dir)),
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
    }
    builder = SparkSession.builder.master(master).appName(f"magnetar {name}")
    for key, value in all_settings.items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    with output_to(spark_log):
        session = builder.getOrCreate()
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


def _environment(work_dir: Path, *, local: bool) -> dict[str, str]:
    """Return Spark's environment variables: the Python executable, the directories and the address."""
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(work_dir),
        # Spark warns about each new version of pandas, which is not used here.
        "PYTHONWARNINGS": "ignore::FutureWarning",
    }
    return environment | {"SPARK_LOCAL_IP": "127.0.0.1"} if local else environment
