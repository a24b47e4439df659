"""A child process that is always cleaned up."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOOPBACK = "127.0.0.1"
STOP_TIMEOUT_S = 30.0
"""Seconds between SIGTERM and SIGKILL."""


_ALL_PORTS = range(10_000, 32_000)
"""Ports outside of the kernel's range for outgoing connections, which could block a listening server."""


class _Ports:
    """Ports that this process alone hands out, each once until all were: a server may start long after its choice."""

    def __init__(self) -> None:
        """Take this process's part of all ports, if it is one of several that run tests."""
        index = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        share = len(_ALL_PORTS) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        self._ports = _ALL_PORTS[index * share : (index + 1) * share]
        self._next = random.randrange(share)

    def take(self, length: int) -> range:
        """Return ``length`` consecutive ports without listeners at the moment."""
        while True:
            if self._next + length > len(self._ports):
                self._next = 0
            found = self._ports[self._next : self._next + length]
            self._next += length
            if all(map(is_free, found)):
                return found


_PORTS = _Ports()


def free_ports(count: int) -> list[int]:
    """Return ``count`` consecutive ports without listeners, which no other test of this run gets."""
    return list(_PORTS.take(count))


def is_free(port: int) -> bool:
    """Return whether a port has no listener."""
    with socket.socket() as probe:
        # as servers do, so that old connections are no obstacle
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class Process(Protocol):
    """The methods of subprocess.Popen that a ChildProcess needs."""

    @property
    def pid(self) -> int:
        """Return the process id."""
        ...

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status; raise subprocess.TimeoutExpired after ``timeout`` seconds."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process has ended."""
        ...


class ChildProcess:
    """A command in a process group of its own; standard output and standard error go to different files."""

    def __init__(
        self, command: Sequence[str], directory: Path, name: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start ``command``; standard output goes to ``name``.out in ``directory``, standard error to ``name``.log.

        ``environment`` is added to the variables of this process.
        """
        self.name = name
        self.output = directory / f"{name}.out"
        self.log = directory / f"{name}.log"
        with self.output.open("wb") as output, self.log.open("ab") as log:
            self._process = self._start(command, output, log, {**os.environ, **(environment or {})})

    def _start(
        self, command: Sequence[str], output: IO[bytes], log: IO[bytes], environment: Mapping[str, str]
    ) -> Process:
        """Start the process, as the first of its group."""
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            start_new_session=True,
            env=dict(environment),
        )

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of its group."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        return self._process.poll()

    def require_running(self) -> None:
        """Raise RuntimeError with the end of the log if the process has ended."""
        if self.exit_status is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            message = f"{self.name} ended with status {self.exit_status}:\n{tail}"
            raise RuntimeError(message)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process group with SIGKILL, and wait for the process."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Stop the process with SIGTERM, and with SIGKILL after the time limit; return its exit status."""
        self.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            self.kill()

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
