"""The part of a task that does not depend on Spark: its sources, and the reports of its writer about the target."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from magnetar.pipeline.connections.flow import Budget
from magnetar.pipeline.connections.reports import Receipts, Refused, Report, TargetDown, TargetLost, TargetUp
from magnetar.pipeline.reading.outflow import Outflow
from magnetar.pipeline.reading.source_cluster import SourceCluster

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from random import Random

    from magnetar.pipeline.options import ClusterAddress
    from magnetar.pipeline.rows import Carried
    from magnetar.pipeline.spreading import Assignment


class CarryingTask(ABC):
    """A task that carries links: the state that its sources share (`magnetar.pipeline.reading.task.Task`)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        assignment: Assignment,
        pipeline: str,
        sources: Iterable[ClusterAddress],
        rng: Random,
    ) -> None:
        """Create the sources of ``assignment``, without connections."""
        self.loop = loop
        self.rng = rng
        self.budget = Budget()
        self.assignment = assignment
        self.target, self.lease, self.buckets = assignment.target, assignment.lease, assignment.buckets
        self.pipeline = pipeline
        self.target_state = ""
        self.custody = ""
        self._target_down = "not connected yet"
        """Why the target is not connected; empty if it is."""
        self._begun = False
        self._numbers = itertools.count(1)
        self._outflow = Outflow()
        self._sources = {address.name: SourceCluster(self, address) for address in sources}

    @property
    def carrying(self) -> bool:
        """See Task."""
        return self._begun and not self._target_down

    @property
    @abstractmethod
    def succeeded(self) -> bool:
        """See Task."""

    @abstractmethod
    def poll_namespaces(self, source: str) -> None:
        """See Task."""

    def next_number(self) -> int:
        """See Task."""
        return next(self._numbers)

    def carry(self, carried: Carried) -> None:
        """See Task."""
        self._outflow.put(carried)

    def forget(self, number: int) -> None:
        """See Task."""
        self._outflow.forget(number)

    def begin(self) -> None:
        """Begin the slot: attach the links as soon as the target is connected."""
        self._begun = True
        self._attach()

    def take(self, report: Report) -> None:
        """Handle a report of the writer."""
        match report:
            case TargetUp() | TargetLost() | TargetDown():
                self._target_changed(report)
            case Receipts(confirmed):
                for number, position in confirmed:
                    self._outflow.confirmed(number, position, self.loop.time())
                    for source in self._sources.values():
                        source.confirmed(number, position)
            case Refused(attachment, reason, end):
                for source in self._sources.values():
                    source.refused(attachment, reason, end)
            case _:
                pass

    def _target_changed(self, report: TargetUp | TargetLost | TargetDown) -> None:
        match report:
            case TargetUp(state, custody):
                self._target_down, self.target_state, self.custody = "", state, custody
                self._attach()
            case TargetLost(state, topics):
                self.target_state = state
                for source in self._sources.values():
                    source.target_lost(topics)
            case TargetDown(reason):
                self._target_down, self.target_state = reason, ""
                for source in self._sources.values():
                    source.detach()

    def _attach(self) -> None:
        if self.carrying:
            for source in self._sources.values():
                source.attach()
