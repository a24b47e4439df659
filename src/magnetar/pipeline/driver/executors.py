"""Checks of the executors of a Spark cluster before the work begins: a wrong setting must not end in a stall.

A task in each slot imports the modules of the work, looks for files that the driver has written, and tells its clock.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import socket
import threading
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from magnetar import __version__
from magnetar.base.errors import ConfigurationError
from magnetar.pipeline import limits
from magnetar.pipeline.driver.slots import ANY, Need, SlotWait, shortage, slots_of
from magnetar.security.client_conf import check_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

_MISSING = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_VERSIONS = re.compile(r"Python in worker has different version:? \(?(?P<theirs>[\d.]+|\d+, \d+)")
_NO_PYTHON = re.compile(r'Cannot run program "(?P<name>[^"]+)"')


@dataclass(frozen=True, slots=True)
class Demands:
    """What a command needs of executors."""

    modules: tuple[str, ...]
    """Modules that its tasks import."""
    need: Need = ANY
    files: tuple[Path, ...] = ()
    """Files that executors read."""
    directories: tuple[Path, ...] = ()
    """Directories that the driver and executors write."""
    client_confs: tuple[str, ...] = ()
    """Files with credentials, as in ``credentials_in``, that each executor has."""


@dataclass(frozen=True)
class Executor:
    """The answer of a task."""

    host: str
    version: str
    """Version of Magnetar."""
    time: float
    """Seconds since the epoch, by the clock of the machine."""
    unseen: tuple[str, ...] = ()
    """Files and directories that the machine does not share with the driver."""
    problem: str = ""
    """Why it cannot use its credentials."""


def check_executors(session: SparkSession, demands: Demands, stop: threading.Event) -> list[str]:
    """Return warnings about the clocks of executors.

    Raises ConfigurationError if executors cannot do the work, or none appears.
    """
    slots = _awaited(session, demands.need, stop)
    with ExitStack() as stack:
        seen = {str(path): _digest(path) for path in demands.files}
        marks = [stack.enter_context(_mark(directory)) for directory in demands.directories]
        number = max(1, slots)
        files = {**seen, **{str(mark): _digest(mark) for mark in marks}}
        found = _ask(session, partial(probe, demands.modules, files, demands.client_confs), number)
        unwritten = [mark.parent for mark in marks if not _answers(mark)]
    check_answers(found, unwritten)
    before = time.time()
    clocks = _ask(session, partial(probe, (), {}, ()), number)
    return skews(clocks, before, time.time())


def check_answers(found: Sequence[Executor], unwritten: Sequence[Path]) -> None:
    """Raise ConfigurationError for an executor with another version, or without the files that it needs.

    ``unwritten`` are directories in which the driver does not see the files of executors.
    """
    for each in found:
        if each.version != __version__:
            message = f"the executor on {each.host} has version {each.version} of Magnetar, the driver {__version__}"
            raise _unsuitable(message, _PACKAGE_HINT)
        if each.unseen:
            message = f"the executor on {each.host} does not see {each.unseen[0]} of the driver"
            raise _unsuitable(message, _SHARED_HINT)
        if each.problem:
            message = f"the executor on {each.host} cannot use its credentials: {each.problem}"
            raise ConfigurationError(message)
    if unwritten:
        message = f"the driver does not see in {unwritten[0]} what executors write there"
        raise _unsuitable(message, _SHARED_HINT)


def _unsuitable(message: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"{message}\nhint: {hint}")


def skews(found: Iterable[Executor], before: float, after: float) -> list[str]:
    """Return a warning for each machine whose clock is wrong; its tasks answered between ``before`` and ``after``."""
    by_host = {each.host: max(before - each.time, each.time - after) for each in found}
    return [
        f"the clock of {host} differs from the driver's by {skew:.1f} s"
        "\nhint: leases follow the clock; synchronize the machines, for example with NTP"
        for host, skew in by_host.items()
        if skew > limits.CLOCK_SKEW_SECONDS
    ]


def explained(error: str, python: str) -> str:
    """Return the reason for a failed task, with a hint; ``python`` is the command that starts Python."""
    if missing := _MISSING.search(error):
        text = f"Python on an executor ({python}) has no module {missing['name']}"
        return f"{text}\nhint: {_PACKAGE_HINT}"
    if versions := _VERSIONS.search(error):
        theirs = versions["theirs"].replace(", ", ".")
        text = f"Python on an executor ({python}) has version {theirs}, which is not that of the driver"
        return f"{text}\nhint: set PYSPARK_PYTHON to a command that starts the driver's version there"
    if program := _NO_PYTHON.search(error):
        return f"an executor has no program {program['name']}\nhint: set PYSPARK_PYTHON to that of Python there"
    return f"a task on an executor failed: {(error.strip().splitlines() or ['unknown reason'])[0]}"


_PACKAGE_HINT = "magnetar pipeline package FILE builds the package that --package FILE unpacks on executors"
_SHARED_HINT = "name a directory of storage that the driver and all executors share at the same path"


def probe(
    modules: Sequence[str], files: Mapping[str, str], client_confs: Iterable[str], numbers: Iterable[int]
) -> Iterator[Executor]:
    """Answer in a task: import ``modules``, compare ``files``, given with their digests, and check credentials.

    Beside each file whose name is a mark, it leaves an answer.
    """
    for module in modules:
        importlib.import_module(module)
    problem = next(filter(None, map(_problem_of, client_confs)), "")
    for number in numbers:
        unseen = []
        for name, wanted in files.items():
            path = Path(name)
            try:
                if _digest(path) != wanted:
                    unseen.append(name)
                elif path.name.startswith(_MARK):
                    path.with_name(f"{path.name}-{number}").touch()
            except OSError:
                unseen.append(name)
        yield Executor(socket.gethostname(), __version__, time.time(), tuple(unseen), problem)


def _problem_of(client_conf: str) -> str:
    try:
        check_credentials(client_conf)
    except ConfigurationError as error:
        return str(error)
    return ""


_MARK = ".magnetar-shared-"


@contextmanager
def _mark(directory: Path) -> Iterator[Path]:
    """Write a file with a random content for the block; remove it and the answers to it afterwards."""
    mark = directory / f"{_MARK}{uuid.uuid4().hex}"
    mark.write_text(uuid.uuid4().hex)
    try:
        yield mark
    finally:
        for path in [mark, *_answers(mark)]:
            path.unlink(missing_ok=True)


def _answers(mark: Path) -> list[Path]:
    return list(mark.parent.glob(f"{mark.name}-*"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _awaited(session: SparkSession, need: Need, stop: threading.Event) -> int:
    """Wait until there are slots for the tasks, or no further executor appears; return their number.

    It is 0 if Spark starts executors only when tasks wait. Otherwise raises ConfigurationError if some tasks would
    never run.
    """
    context = session.sparkContext
    conf = context._jsc.sc().conf()  # noqa: SLF001 - PySpark does not export it
    if conf.getBoolean("spark.dynamicAllocation.enabled", False):  # noqa: FBT003 - Java's signature
        return 0
    wait_s = conf.getTimeAsMs("spark.scheduler.maxRegisteredResourcesWaitingTime", limits.EXECUTORS_WAIT) / 1000
    wait = SlotWait(need, time.monotonic() + wait_s)
    while not wait.is_over(slots := slots_of(session), time.monotonic()) and not stop.is_set():
        stop.wait(limits.SUPERVISION_SECONDS)
    if not slots and not stop.is_set():
        host, memory = conf.get("spark.driver.host"), conf.get("spark.executor.memory", "1g")
        message = (
            f"no executor has registered within {wait_s:.0f} s\nhint: a machine of the cluster needs a free core and "
            f"{memory} of free memory (spark.executor.memory), and must reach the driver at {host} (spark.driver.host)"
        )
        raise ConfigurationError(message)
    if slots < need.some and not stop.is_set():
        raise ConfigurationError(shortage(slots, need))
    return slots


def _ask(session: SparkSession, answer: Callable[[Iterable[int]], Iterator[Executor]], number: int) -> list[Executor]:
    """Run ``number`` tasks, which Spark spreads over all executors; raises ConfigurationError for a failed one."""
    context = session.sparkContext
    tag = f"magnetar-check-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    timer = threading.Timer(limits.EXECUTORS_ANSWER_SECONDS, context.cancelJobsWithTag, (tag,))
    timer.daemon = True
    timer.start()

    try:
        return context.parallelize(range(number), number).mapPartitions(answer).collect()
    except (PySparkException, Py4JError) as error:
        text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        if "cancelled" in text:
            text = f"no answer within {limits.EXECUTORS_ANSWER_SECONDS:.0f} s"
        raise ConfigurationError(explained(text, context.pythonExec)) from error
    finally:
        timer.cancel()
        context.removeJobTag(tag)
