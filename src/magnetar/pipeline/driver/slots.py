"""The task slots of a Spark cluster, and how many of them the links need. Pure except for `slots_of`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.pipeline import limits
from magnetar.pipeline.leases import TURNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkStoppedError(MagnetarError):
    """Spark has ended by itself, for example because the master has removed the application."""


@dataclass(frozen=True, slots=True)
class Need:
    """The number of slots that the tasks of a command need."""

    all: int
    """With so many, no task waits for a slot."""
    some: int
    """With less, a part of the work stands still."""

    @classmethod
    def of_links(cls, tasks: int) -> Need:
        """Return the need of links with ``tasks`` tasks for each lease: those of two leases overlap."""
        return cls(all=TURNS * tasks, some=tasks)


ANY = Need(1, 1)
"""The need of a batch job, whose tasks run one after the other if necessary."""


_HINT = (
    "a slot is a core of an executor (spark.executor.cores, spark.cores.max). Links need little processor time, so a "
    "machine may offer more cores than it has"
)


def shortage(slots: int, need: Need) -> str:
    """Return what the lack of slots means for the links, with a hint; empty if there are enough."""
    if slots >= need.all:
        return ""
    is_some = slots >= need.some
    effect = "links pause for some seconds at each hand-over" if is_some else "tasks of links wait for each other"
    return f"Spark has {slots} task slots and the links need {need.all}: {effect}\nhint: {_HINT}"


class SlotWatch:
    """Notices a shortage of slots: the first one at once, and a change that lasts. Times are monotonic seconds."""

    def __init__(self, need: Need) -> None:
        """Begin without a shortage."""
        self._need = need
        self._told = self._seen = ""
        self._since: float | None = None

    def note(self, slots: int, now: float) -> str | None:
        """Return a new shortage, or an empty text at its end; None if nothing is new, or not for long enough."""
        found = shortage(slots, self._need)
        if self._since is None:
            self._since, self._told, self._seen = now, found, found
            return found or None
        if found != self._seen:
            self._seen, self._since = found, now
        if found == self._told or now - self._since < limits.SLOTS_SETTLE_SECONDS:
            return None
        self._told = found
        return found


def slots_of(session: SparkSession) -> int:
    """Return the number of tasks that Spark's present executors run at once; raises SparkStoppedError."""
    context = session.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark does not export it
    if context.isStopped():
        message = (
            "Spark has stopped the application\nhint: Spark's output, and the pages of the master, tell the reason"
        )
        raise SparkStoppedError(message)
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
