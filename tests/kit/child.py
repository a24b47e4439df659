"""A child process that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOOPBACK = "127.0.0.1"
STOP_TIMEOUT_S = 30.0
"""Seconds between SIGTERM and SIGKILL."""


_PORTS = range(10_000, 32_000)
"""Ports that the kernel gives to no outgoing connection: one of those would keep a server from listening later."""


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that nothing listened on a moment ago."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        if port not in found and is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    """Whether nothing listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: an old connection is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class ChildProcess:
    """A command in a process group of its own; what it says goes to a file, standard output apart from the words."""

    def __init__(
        self, command: Sequence[str], directory: Path, name: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start ``command``; its output is in ``directory`` as ``name``.out, and all it said as ``name``.log.

        ``environment`` is added to the variables of this process.
        """
        self.name = name
        self.output = directory / f"{name}.out"
        self.log = directory / f"{name}.log"
        with self.output.open("wb") as output, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        """The process id, which is its group's id as well."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def require_running(self) -> None:
        """Raise RuntimeError with the end of the log if the process has ended."""
        if self.exit_status is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            message = f"{self.name} ended with status {self.exit_status}:\n{tail}"
            raise RuntimeError(message)

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the process itself."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """``kill -9`` the process and all that it started, and wait for it."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask the process to end and return its exit status; what does not end in time is killed."""
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
