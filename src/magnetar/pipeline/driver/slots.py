"""The task slots of a Spark cluster, and how many of them the links need. Pure except for `slots_of`."""

from __future__ import annotations

import sys
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


def parallelism_of(slots: int, targets: int) -> int:
    """Return the number of tasks for the links to each target that have room in half of ``slots``, those of two leases.

    So all tasks have room after the loss of one of two machines.
    """
    return max(1, min(limits.PARALLELISM_MAX, slots // (2 * TURNS * targets)))


ANY = Need(all=sys.maxsize, some=1)
"""The need of a batch job, which uses all slots, and whose tasks run one after the other if necessary."""


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


class SlotWait:
    """Waits for executors while further ones appear. Times are monotonic seconds."""

    def __init__(self, need: Need, deadline: float) -> None:
        """Wait at most until ``deadline``."""
        self._need = need
        self._deadline = deadline
        self._slots = -1
        self._since = 0.0

    def is_over(self, slots: int, now: float) -> bool:
        """Return whether there are enough slots, or no more of them are to be expected."""
        if slots != self._slots:
            self._slots, self._since = slots, now
        is_stable = slots >= self._need.some and now - self._since >= limits.EXECUTORS_STABLE_SECONDS
        return slots >= self._need.all or is_stable or now >= self._deadline


class SlotWatch:
    """Notices a changed shortage of slots that lasts. Times are monotonic seconds."""

    def __init__(self, need: Need) -> None:
        """Begin without a shortage."""
        self._need = need
        self._told = self._seen = ""
        self._since = self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether the number of slots should be looked at, after SLOTS_POLL_SECONDS."""
        if now < self._due:
            return False
        self._due = now + limits.SLOTS_POLL_SECONDS
        return True

    def note(self, slots: int, now: float) -> str | None:
        """Return a new shortage, or an empty text at its end; None if nothing has changed for long enough."""
        found = shortage(slots, self._need)
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
