"""Child processes that die with their parent, and what starts one again when it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

RESTART_INITIAL_SECONDS = 0.5
"""Pause before a child that ended is started again for the first time."""

RESTART_MAX_SECONDS = 15.0
"""Longest pause between two starts of a child that keeps ending."""

STABLE_SECONDS = 30.0
"""A child that ran this long has recovered: the next pause is the initial one again."""

LOG_TAIL_LINES = 12
"""Lines of its log that are shown for a child that did not start."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, where, and the file that takes all that it says."""

    name: str
    arguments: Sequence[str]
    directory: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the parent's."""
    outlives_parent: bool = False


class Running(Protocol):
    """A started process."""

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""
        ...

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        ...

    def kill_group(self) -> None:
        """End it, and whatever it left behind in its process group, at once (SIGKILL)."""
        ...


class Process:
    """A process of the operating system, in a process group of its own so that a terminal's Ctrl-C passes it by."""

    def __init__(self, command: Command) -> None:
        """Start ``command``; raises OSError when it cannot be started."""
        command.directory.mkdir(parents=True, exist_ok=True)
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
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
        return self._process.poll()

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
    """What a child process calls first so that the kernel kills it when its ``parent`` dies; None without prctl."""
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
    """One process that is kept running: what ended is started again, after a pause that grows while it keeps ending.

    Nothing here waits; `tick` is called again and again with the time. ``start`` makes a Running of the command.
    """

    def __init__(self, command: Command, start: Callable[[Command], Running] = Process) -> None:
        """Nothing runs until `start`."""
        self.command = command
        self._start = start
        self._process: Running | None = None
        self._started_at = 0.0
        self._start_at: float | None = None
        self._pause = RESTART_INITIAL_SECONDS

    @property
    def pid(self) -> int | None:
        """Process id of what runs now; None between an end and the next start."""
        return self._process.pid if self._process is not None else None

    def start(self, now: float) -> None:
        """Start the process."""
        self._process = self._start(self.command)
        self._started_at = now
        self._start_at = None

    def exit_status(self) -> int | None:
        """Exit status of the process if it has ended and was not started again."""
        return self._process.poll() if self._process is not None else None

    def tick(self, now: float) -> str | None:
        """Start again what ended, when its pause is over; the text is what an operator should hear of it."""
        if self._process is not None:
            status = self._process.poll()
            return self._ended(status, now) if status is not None else None
        if self._start_at is not None and now >= self._start_at:
            self.start(now)
            return f"{self.command.name} is started again: process {self.pid}"
        return None

    def stop(self) -> None:
        """Ask the process to end and do not start it again."""
        self._start_at = None
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process and all that it left behind, at once."""
        self._start_at = None
        if self._process is not None:
            self._process.kill_group()

    @property
    def stopped(self) -> bool:
        """Whether nothing runs."""
        return self._process is None or self._process.poll() is not None

    def _ended(self, status: int, now: float) -> str:
        assert self._process is not None, "only what ran can end"
        self._process.kill_group()  # what it had started must not outlive it
        self._process = None
        if now - self._started_at >= STABLE_SECONDS:
            self._pause = RESTART_INITIAL_SECONDS
        pause, self._pause = self._pause, min(self._pause * 2, RESTART_MAX_SECONDS)
        self._start_at = now + pause
        return f"{self.command.name} {describe_exit(status)}; starting it again in {pause:g} s"


def describe_exit(status: int) -> str:
    """An exit status in words: "was killed (SIGKILL)", "ended with status 1"."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed ({signal.Signals(-status).name})"
    except ValueError:
        return f"was killed (signal {-status})"


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last ``lines`` lines of a log; empty when there is none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            return "".join(deque(file, lines)).rstrip()
    except FileNotFoundError:
        return ""
