"""The newest statuses of the tasks of each target, and of those that they take the links from."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from magnetar.pipeline import limits
from magnetar.pipeline.spreading import NO_TRAFFIC, Traffic

if TYPE_CHECKING:
    from magnetar.pipeline.status import TaskStatus

    Place = tuple[str, int]
    """A target, and a number of its tasks."""


class TaskStatuses:
    """Collects the statuses of tasks; nothing is known of a task that reports no more. Times are monotonic seconds."""

    def __init__(self) -> None:
        """Begin without statuses."""
        self._newest: dict[Place, tuple[float, TaskStatus]] = {}
        self._before: dict[Place, tuple[float, TaskStatus]] = {}
        """By task, that of the lease before the newest one; it carries links until all of them have moved."""
        self.traffic = Traffic()
        """The traffic of the links, by which the next lease divides them."""

    @property
    def heard_of(self) -> int:
        """Number of tasks that have carried links, over all targets; those of further leases do not count."""
        return len(self._newest)

    def heard(self, status: TaskStatus, now: float) -> bool:
        """Keep the status of a task that carries links; return False for one of an earlier lease."""
        place = status.target, status.part
        known = self._newest.get(place)
        if not status.carrying:
            return False
        self.traffic.heard(status.target, status.lease, status.part, status.traffic)
        if known is not None and status.lease < known[1].lease:
            if status.lease == known[1].lease - 1:
                self._before[place] = now, status
            return False
        if known is not None and status.lease == known[1].lease + 1:
            self._before[place] = known
        self._newest[place] = now, status
        return True

    def recent(self, now: float) -> tuple[TaskStatus, ...]:
        """Return the status of each target whose tasks have reported within ``STATUS_SILENT_SECONDS``.

        It is that of all its tasks together, during a hand-over of those of both leases.
        """
        found: dict[str, list[TaskStatus]] = {}
        for (target, part), (at, status) in tuple(self._newest.items()):  # the caller may be another thread
            if now - at < limits.STATUS_SILENT_SECONDS:
                found.setdefault(target, []).append(self._with_before((target, part), status, now))
        return tuple(reduce(_together, statuses) for statuses in found.values())

    def _with_before(self, place: Place, status: TaskStatus, now: float) -> TaskStatus:
        at, before = self._before.get(place, (0.0, status))
        if before.lease == status.lease - 1 and now - at < limits.HAND_OVER_SILENT_SECONDS:
            status = replace(_together(before, status), entries=status.entries)
        return replace(status, part=0, traffic=NO_TRAFFIC)


def _together(one: TaskStatus, other: TaskStatus) -> TaskStatus:
    """Return the status of two tasks of a target."""
    return replace(
        one,
        lease=max(one.lease, other.lease),
        down=one.down | other.down,
        links=one.links + other.links,
        parked=one.parked | other.parked,
        rivals=sorted({*one.rivals, *other.rivals}),
        entries=one.entries + other.entries,
        in_flight_bytes=one.in_flight_bytes + other.in_flight_bytes,
    )
