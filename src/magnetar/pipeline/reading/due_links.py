"""The links of one source that need a holder, as its broker reports them (protocol: Resting links)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import LinkHeldError, MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.link_reports import carry_links
from magnetar.pipeline.reading.source_link import PARKING
from magnetar.pipeline.spreading import ALL_BUCKETS
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from magnetar.client.client import PulsarClient
    from magnetar.client.connection import PulsarConnection
    from magnetar.pipeline.reading.task import Task


class DueLinks:
    """The links of one source to the target of a task, if its broker reports those that need a holder."""

    def __init__(self, task: Task, client: PulsarClient, on_due: Callable[[Collection[str], int], None]) -> None:
        """Create it; ``on_due`` gets the topics whose links need a holder, and how many of the first are urgent."""
        self._task = task
        self._client = client
        self._on_due = on_due
        self.is_superseded = False
        """Whether the next lease has taken the links."""
        self.rival = ""
        """The other pipeline that carries the links; empty if there is none."""
        self._attempt = 0
        self._has_begun = False
        """Whether the task has carried the links; before its slot it must not, because another task does."""
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def are_reported(self) -> bool:
        """Whether the source is connected and reports the links of the task that need a holder."""
        service = self._client.service
        if service is None:
            return False
        features = service.peer_features
        return features.supports_link_buckets or (features.supports_resting_links and self._carries_all)

    @property
    def _carries_all(self) -> bool:
        return self._task.buckets == ALL_BUCKETS

    def carry(self, lost: Collection[str] = ()) -> None:
        """Report to the source that the task carries the links, and the present state of the target.

        ``lost`` has the topics that the target lost since the last report. Without them, a new state means that it may
        have lost any entry.
        """
        service = self._client.service
        if service is None or not self.are_reported or self.is_superseded:
            return
        task, self._has_begun = self._task, True
        command = pb.CommandCarryLinks(
            target=task.target,
            lease=task.lease,
            pipeline=task.pipeline,
            target_state=task.target_state,
            lost=lost,
            buckets=() if self._carries_all else sorted(task.buckets),
        )
        request = start_task(task.loop, self._carry(service, command), f"links to {task.target}")
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    def target_down(self) -> None:
        """Report to the source that the target is not connected, if the task carries the links."""
        if self._has_begun:
            self.carry()

    def close(self) -> None:
        """Cancel the requests."""
        for request in self._requests:
            request.cancel()

    async def _carry(self, service: PulsarConnection, command: pb.CommandCarryLinks) -> None:
        try:
            await carry_links(service, command, lambda report: self._reported(service, report))
        except LinkHeldError as error:
            if error.pipeline is None:
                self.is_superseded = True
                return
            self.rival = error.pipeline
            self._attempt += 1
            self._task.loop.call_later(PARKING.delay(self._attempt - 1, self._task.rng), self.carry)
        except (MagnetarError, OSError):
            service.close()  # the next connection reports again
        else:
            self.rival, self._attempt = "", 0

    def _reported(self, service: PulsarConnection, report: pb.CommandLinksDue) -> None:
        if service is not self._client.service:
            return
        self.is_superseded |= report.superseded
        if report.topics:
            self._on_due(report.topics, report.urgent)
