"""Child processes that die with their parent, and their restarts."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from magnetar.base.logs.rotated_output import RotatedOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

RESTART_INITIAL_SECONDS = 0.5
"""Pause before the first restart of a child."""

RESTART_MAX_SECONDS = 15.0
"""Longest pause before a restart of a child that ends repeatedly."""

STABLE_SECONDS = 30.0
"""Run time after which the pause is reset to the initial one."""

LOG_TAIL_LINES = 12
"""Lines of its log that are printed if a child did not start."""

DRAIN_SECONDS = 0.5
"""Longest wait for the last output of a process that has ended; its children may hold the pipe open."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Command:
    """A command, its working directory, and the file for its output, which is rotated."""

    name: str
    arguments: Sequence[str]
    directory: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to those of the parent."""
    outlives_parent: bool = False
    """Whether it may run on without its parent; its output is then written directly, and not rotated."""
    more_logs: Sequence[Path] = ()
    """Further files that may tell why the command failed."""


class Running(Protocol):
    """A started process."""

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the process group."""
        ...

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill_group(self) -> None:
        """Send SIGKILL to the process group, which includes processes that the process left behind."""
        ...


class Process:
    """A process of the operating system, in its own process group, so that Ctrl-C does not reach it."""

    def __init__(self, command: Command) -> None:
        """Start ``command``; raises OSError if that fails."""
        command.directory.mkdir(parents=True, exist_ok=True)
        command.log.parent.mkdir(parents=True, exist_ok=True)
        self._output = None if command.outlives_parent else RotatedOutput(command.log)
        with ExitStack() as held:
            if self._output is None:
                log = held.enter_context(command.log.open("ab")).fileno()
            else:
                log = self._output.sink
                held.callback(self._output.close)
            self._process = subprocess.Popen(  # noqa: S603 - commands are built here, not given
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=command.directory,
                env={**os.environ, **command.environment},
                process_group=0,
                preexec_fn=None if command.outlives_parent else death_pact(os.getpid()),  # noqa: PLW1509 - a prctl call only, safe with threads
            )

    @property
    def pid(self) -> int:
        """See Running."""
        return self._process.pid

    def poll(self) -> int | None:
        """See Running."""
        status = self._process.poll()
        if status is not None and self._output is not None:
            self._output.drain(DRAIN_SECONDS)
        return status

    def terminate(self) -> None:
        """See Running."""
        self._process.terminate()

    def kill_group(self) -> None:
        """See Running."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()


def death_pact(parent: int) -> Callable[[], None] | None:
    """Return a function for the child that makes the kernel kill it with its ``parent``; None without prctl."""
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (AttributeError, OSError):
        return None

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the pact
            os._exit(1)

    return in_child


class Child:
    """A process that is restarted when it ends, after a pause that grows with each restart.

    No method waits; call `tick` repeatedly with the time. ``start`` starts the command.
    """

    def __init__(self, command: Command, start: Callable[[Command], Running] = Process) -> None:
        """Prepare the process; `start` starts it."""
        self.command = command
        self._start = start
        self._process: Running | None = None
        self._started_at = 0.0
        self._start_at: float | None = None
        self._pause = RESTART_INITIAL_SECONDS

    @property
    def pid(self) -> int | None:
        """Process id; None while the process is not running."""
        return self._process.pid if self._process is not None else None

    def start(self, now: float) -> None:
        """Start the process."""
        self._process = self._start(self.command)
        self._started_at = now
        self._start_at = None

    def exit_status(self) -> int | None:
        """Return the exit status if the process has ended and was not restarted, else None."""
        return self._process.poll() if self._process is not None else None

    def tick(self, now: float) -> str | None:
        """Restart the process when its pause is over; return a message for the operator, if there is news."""
        if self._process is not None:
            status = self._process.poll()
            return self._ended(status, now) if status is not None else None
        if self._start_at is not None and now >= self._start_at:
            self.start(now)
            return f"{self.command.name} restarted: process {self.pid}"
        return None

    def stop(self) -> None:
        """Send SIGTERM and do not restart the process."""
        self._start_at = None
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the process group and do not restart the process."""
        self._start_at = None
        if self._process is not None:
            self._process.kill_group()

    @property
    def stopped(self) -> bool:
        """Whether no process is running."""
        return self._process is None or self._process.poll() is not None

    def _ended(self, status: int, now: float) -> str:
        assert self._process is not None, "only a started process can end"
        self._process.kill_group()  # its own children must not outlive it
        self._process = None
        if now - self._started_at >= STABLE_SECONDS:
            self._pause = RESTART_INITIAL_SECONDS
        pause, self._pause = self._pause, min(self._pause * 2, RESTART_MAX_SECONDS)
        self._start_at = now + pause
        return f"{self.command.name} {describe_exit(status)}; restarting it in {pause:g} s"


def describe_exit(status: int) -> str:
    """Return an exit status in words: "was killed (SIGKILL)", "ended with status 1"."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed ({signal.Signals(-status).name})"
    except ValueError:
        return f"was killed (signal {-status})"


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last ``lines`` lines of a log; empty if there is no log."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            return "".join(deque(file, lines)).rstrip()
    except FileNotFoundError:
        return ""
