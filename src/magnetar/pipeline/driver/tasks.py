"""The newest statuses of each target's task, and of the task that it takes the links from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.pipeline import limits

if TYPE_CHECKING:
    from magnetar.pipeline.status import TaskStatus


class TaskStatuses:
    """Collects the statuses of tasks; nothing is known of a task that reports no more. Times are monotonic seconds."""

    def __init__(self) -> None:
        """Begin without statuses."""
        self._newest: dict[str, tuple[float, TaskStatus]] = {}
        self._before: dict[str, tuple[float, TaskStatus]] = {}
        """By target, the task of the lease before the newest one; it carries links until all of them have moved."""

    @property
    def targets(self) -> int:
        """Number of targets whose links a task has carried."""
        return len(self._newest)

    def heard(self, status: TaskStatus, now: float) -> bool:
        """Keep the status of a task that carries links; return False for one of an earlier lease."""
        known = self._newest.get(status.target)
        if not status.carrying:
            return False
        if known is not None and status.lease < known[1].lease:
            if status.lease == known[1].lease - 1:
                self._before[status.target] = now, status
            return False
        if known is not None and status.lease == known[1].lease + 1:
            self._before[status.target] = known
        self._newest[status.target] = now, status
        return True

    def recent(self, now: float) -> tuple[TaskStatus, ...]:
        """Return the statuses of the tasks that have reported within ``STATUS_SILENT_SECONDS``.

        During a hand-over the status of a target is that of both tasks together.
        """
        newest = tuple(self._newest.values())  # at once: the caller may be another thread
        return tuple(self._with_before(status, now) for at, status in newest if now - at < limits.STATUS_SILENT_SECONDS)

    def _with_before(self, status: TaskStatus, now: float) -> TaskStatus:
        at, before = self._before.get(status.target, (0.0, status))
        if before.lease != status.lease - 1 or now - at >= limits.HAND_OVER_SILENT_SECONDS:
            return status
        return replace(
            status,
            down=before.down | status.down,
            links=before.links + status.links,
            parked=before.parked | status.parked,
            rivals=sorted({*before.rivals, *status.rivals}),
            in_flight_bytes=before.in_flight_bytes + status.in_flight_bytes,
        )
