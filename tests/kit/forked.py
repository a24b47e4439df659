"""Brokers that start quickly: they are forked from a process that has imported the broker's modules.

The import takes most of the processor time of a start, and the suites start hundreds of brokers.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.kit.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["magnetar.cli.broker", "magnetar.broker.service", "magnetar.broker.settings.loading"])


class ForkedBroker(ChildProcess):
    """A command of the form ``python -m MODULE ARGUMENTS``, in a forked process."""

    def _start(
        self, command: Sequence[str], output: IO[bytes], log: IO[bytes], environment: Mapping[str, str]
    ) -> _Fork:
        _, _, module, *arguments = command
        return _Fork(module, arguments, (output.name, log.name), environment)


class _Fork:
    """The methods of subprocess.Popen that ChildProcess uses."""

    def __init__(
        self, module: str, arguments: Sequence[str], files: tuple[str, str], environment: Mapping[str, str]
    ) -> None:
        settings = dict(environment), Path.cwd(), [module, *arguments], files
        # it ends with the tests if one of them forgets it
        self._process = _FORKS.Process(target=_run, args=settings, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired([self._process.name], timeout)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def _run(environment: Mapping[str, str], directory: Path, arguments: list[str], files: tuple[str, str]) -> None:
    """Run a module as ``python -m`` does, with standard output and standard error in files."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for path, descriptor in zip(files, (1, 2), strict=True):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
