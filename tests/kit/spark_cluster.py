"""A standalone cluster of Spark on this machine, whose executors have Python and PySpark, and nothing of Magnetar."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark

from tests.kit.child import LOOPBACK, ChildProcess, free_ports
from tests.kit.processes import descendants, find
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

START_TIMEOUT_S = 120.0
MEMORY = "1g"
"""Memory that a worker offers to executors."""

_SPARK_HOME = Path(pyspark.__file__).parent
_DAEMON_MEMORY = "256m"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """A master and workers, each of which is a process of its own and can be killed."""

    def __init__(self, directory: Path, workers: int = 2, cores: int = 1) -> None:
        """Choose ports for ``workers`` that offer ``cores`` each; nothing runs yet."""
        self._directory = directory
        self._cores = cores
        self._numbers = range(workers)
        port, self._web_port = free_ports(2)
        self.master = f"spark://{LOOPBACK}:{port}"
        self._port = port
        self._python = directory / "python"
        self._processes: dict[str, ChildProcess] = {}
        self._starts = 0

    def __enter__(self) -> Self:
        """Start the master and the workers."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self._python)], check=True)
        try:
            ports = ["--port", str(self._port), "--webui-port", str(self._web_port)]
            self._start("master", "master.Master", ["--host", LOOPBACK, *ports])
            for number in self._numbers:
                self.start_worker(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """Kill everything."""
        for process in self._processes.values():
            process.kill()

    def start_worker(self, number: int) -> None:
        """Start a worker, and wait until the master knows it."""
        name = f"worker-{number}"
        place = ["--host", LOOPBACK, "--webui-port", "0", "--work-dir", str(self._directory / name)]
        offer = ["--cores", str(self._cores), "--memory", MEMORY]
        self._start(name, "worker.Worker", [*place, *offer, self.master])
        process = self._processes[name]
        wait_until(
            lambda: "Successfully registered with master" in process.log.read_text(errors="replace"),
            START_TIMEOUT_S,
            what=name,
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executors, as if its machine had failed."""
        process = self._processes[f"worker-{number}"]
        below = descendants(process.pid)
        process.kill()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def executor_pids(self) -> list[int]:
        """Return the Java virtual machines of all executors."""
        return [pid for process in self._processes.values() for pid in find(process.pid, _EXECUTOR)]

    def python_pids(self) -> list[int]:
        """Return the Python processes of all executors."""
        return [pid for each in self.executor_pids() for pid in find(each, "pyspark")]

    def _start(self, name: str, module: str, arguments: Sequence[str]) -> None:
        self._starts += 1
        command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{module}", *arguments]
        environment = {
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_CONF_DIR": str(self._directory),
            "PYTHONPATH": "",
            "PATH": f"{self._python / 'bin'}:{os.environ['PATH']}",
        }
        log = self._directory / f"{name}-{self._starts}"
        self._processes[name] = ChildProcess(command, self._directory, log.name, environment)
