"""The newest status of each target's task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.pipeline import limits

if TYPE_CHECKING:
    from magnetar.pipeline.status import TaskStatus


class TaskStatuses:
    """Collects the statuses of tasks; nothing is known of a task that reports no more. Times are monotonic seconds."""

    def __init__(self) -> None:
        """Begin without statuses."""
        self._newest: dict[str, tuple[float, TaskStatus]] = {}

    @property
    def targets(self) -> int:
        """Number of targets whose links a task has carried."""
        return len(self._newest)

    def heard(self, status: TaskStatus, now: float) -> bool:
        """Keep the status of a task that carries links; return False for one of an earlier lease."""
        known = self._newest.get(status.target)
        if not status.carrying or (known is not None and status.lease < known[1].lease):
            return False
        self._newest[status.target] = now, status
        return True

    def recent(self, now: float) -> tuple[TaskStatus, ...]:
        """Return the statuses of the tasks that have reported within ``STATUS_SILENT_SECONDS``."""
        newest = tuple(self._newest.values())  # at once: the caller may be another thread
        return tuple(status for at, status in newest if now - at < limits.STATUS_SILENT_SECONDS)
