"""Commands of one process, one after the other, so that Java starts once for all of them."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Self

from magnetar.cli.main import main
from magnetar.jobs.session import batch_session
from magnetar.pipeline.driver.settings import SparkSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command."""

    status: int
    output: str
    log: str


class OneProcess:
    """A process that runs commands of ``magnetar``. Spark itself starts and ends with each of them that needs it."""

    def __init__(self, directory: Path) -> None:
        """Start the process with the first command; Java and the output use files in ``directory``."""
        self._directory = directory
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start_java, (directory,))

    def __enter__(self) -> Self:
        """Return the object; the context manager ends the process at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the process, and Java with it."""
        self._pool.shutdown(cancel_futures=True)

    def run(self, arguments: Sequence[str], timeout_s: float) -> Ended:
        """Run ``magnetar ARGUMENTS``; raises TimeoutError after the time limit."""
        return self._pool.submit(_run, partial(main, tuple(arguments)), self._directory).result(timeout_s)

    def run_program(self, text: str, timeout_s: float) -> Ended:
        """Run a program in Python, which has to stop the Spark that it starts; raises as ``run``."""
        return self._pool.submit(_run, partial(_execute, text), self._directory).result(timeout_s)


def _start_java(directory: Path) -> None:
    """Start Java with the settings of batch jobs, and with a place for temporary files that outlives each of them."""
    os.environ.pop("COLUMNS", None)  # of the terminal of the tests
    with (
        _output_to(directory / "java.out", directory / "java.log"),
        batch_session("start", SparkSettings("local[2]"), directory),
    ):
        pass


def _execute(text: str) -> int:
    exec(compile(text, "program", "exec"), {})
    return 0


def _run(call: Callable[[], int], directory: Path) -> Ended:
    output, log = directory / "command.out", directory / "command.log"
    with _output_to(output, log):
        status = call()
    return Ended(status, output.read_text(), log.read_text())


@contextmanager
def _output_to(output: Path, log: Path) -> Iterator[None]:
    """Send standard output and standard error to files, also those of processes that are started in the block."""
    kept = [os.dup(number) for number in (1, 2)]
    for number, path in ((1, output), (2, log)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            stream.flush()
            os.dup2(kept[number - 1], number)
            os.close(kept[number - 1])
