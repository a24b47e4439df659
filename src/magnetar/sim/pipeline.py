"""The pipeline without Spark: tasks that carry the links to one target, one lease after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.pipeline.connections.reports import Receipts, Report
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.reading.carrying import CarryingTask
from magnetar.pipeline.rows import Opening
from magnetar.pipeline.spreading import Assignment, spread
from magnetar.pipeline.writing.target import Target
from magnetar.sim.cluster import PORT
from magnetar.sim.virtual.scheduler import MachineLoop
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from magnetar.pipeline.rows import Carried
    from magnetar.sim.virtual.network import Network
    from magnetar.sim.virtual.scheduler import Scheduler

BURST_S = 0.005
"""The time for which a task gathers entries before it passes them from the reader to the writer, in seconds."""

PARALLELISM = (1, 1, 2, 3)
"""Numbers of tasks among which the links to a target are divided."""

TRAFFIC_MAX = 1000
"""Exclusive bound of the traffic of a bucket."""


class PipelineTask(CarryingTask):
    """One task of the pipeline with its reader and its writer; see LeaseReader and Writer."""

    def __init__(self, machine: MachineLoop, assignment: Assignment, sources: Sequence[str], rng: Random) -> None:
        """Connect for the links of ``assignment``; ``begin`` attaches to them."""
        addresses = list(map(_address, sources))
        super().__init__(machine, assignment, "", addresses, rng)
        self.machine = machine
        self.stalled_until = 0.0
        """The loop time until which the task does not write, as on a machine that hangs."""
        self.is_losing = False
        """Whether the task loses the first of the next entries. The target must refuse all later ones."""
        self._has_succeeded = False
        self._is_handing_over = False
        """Whether a timer for passing on entries is set."""
        urls = {address.name: address.broker_url for address in addresses}
        opening = Opening(self.target, self.lease, "", _address(self.target).broker_url, urls)
        self._writer = Target(self.loop, opening, self._tell, rng)
        self._told_at = 0.0
        self._writer.start()
        for source in self._sources.values():
            source.start()

    @property
    def succeeded(self) -> bool:
        """See Task."""
        return self._has_succeeded

    def end_slot(self) -> None:
        """End the lease: release the links to the next task."""
        self._has_succeeded = True
        for source in self._sources.values():
            source.end_slot()

    def carry(self, carried: Carried) -> None:
        """See Task."""
        super().carry(carried)
        self._hand_over_soon()

    def carries_for(self, source: str) -> bool:
        """Return whether the task carries links of ``source``, and is connected to it."""
        return self.carrying and not self._sources[source].down_reason

    def knows(self, source: str, topic: str) -> bool:
        """Return whether the task knows that a link of ``source`` needs a holder."""
        return topic in self._sources[source]._source_links  # noqa: SLF001 - no other code asks

    def asks_for(self, source: str, topic: str) -> bool:
        """Return whether the task has sent SUBSCRIBE for a link of ``source``, and has no answer yet."""
        attachments = self._sources[source]._attachments  # noqa: SLF001 - no other code asks
        mine = (attached for attached in attachments if attached.source_link.attachment.topic == topic)
        return any(each.is_requested and each.task is not None and not each.task.done() for each in mine)

    def poll_namespaces(self, source: str) -> None:
        """See Task: simulated brokers report their namespaces."""
        raise AssertionError(source)

    def _hand_over_soon(self) -> None:
        if not self._is_handing_over:
            self._is_handing_over = True
            self.loop.call_at(max(self.stalled_until, self.loop.time() + BURST_S), self._hand_over)

    def _hand_over(self) -> None:
        if self.loop.time() < self.stalled_until:
            self.loop.call_at(self.stalled_until, self._hand_over)
            return
        self._is_handing_over = False
        entries = self._outflow.take(self.loop.time())
        if self.is_losing and entries:
            self.is_losing = False
            del entries[: len(entries) // 2 + 1]
        self._writer.send(entries)

    def _tell(self, report: Report) -> None:
        """Pass a report from the writer to the reader, in order."""
        self._told_at = max(self._told_at, self.loop.time() + self.rng.uniform(0.0, 0.002))
        self.loop.call_at(self._told_at, lambda: self.take(report))

    def take(self, report: Report) -> None:
        """See CarryingTask."""
        super().take(report)
        if isinstance(report, Receipts):
            self._hand_over_soon()


class Pipeline:
    """The tasks of the pipeline for one target: those of the newest lease, and of earlier ones that still run."""

    def __init__(
        self, target: str, sources: Sequence[str], scheduler: Scheduler, network: Network, chance: Random
    ) -> None:
        """Create the pipeline without a task; ``hand_over`` starts some."""
        self.target = target
        self.leases: list[list[PipelineTask]] = []
        """The running tasks by lease, the oldest first."""
        self._sources = sources
        self._scheduler = scheduler
        self._network = network
        self._chance = chance
        self._lease = 0
        self._attempts = 0

    @property
    def tasks(self) -> list[PipelineTask]:
        """The running tasks."""
        return [task for tasks in self.leases for task in tasks]

    def carrier(self, bucket: int) -> PipelineTask:
        """Return the task of the newest lease that carries the links of a bucket."""
        return next(task for task in self.leases[-1] if bucket in task.buckets)

    def hand_over(self) -> None:
        """Start the tasks of the next lease, which divide the links at random."""
        self._lease += 1
        traffic = [self._chance.randrange(TRAFFIC_MAX) for _ in range(LINK_BUCKETS)]
        parts = enumerate(spread(traffic, self._chance.choice(PARALLELISM)))
        started = [self._start(Assignment(self.target, self._lease, part, buckets)) for part, buckets in parts]
        for before in self.tasks:
            before.end_slot()
        self.leases.append(started)

    def retry(self) -> None:
        """Kill one of the newest tasks, with those of earlier leases, and start it again."""
        for old in [task for tasks in self.leases[:-1] for task in tasks]:
            self._kill(old)
        del self.leases[:-1]
        tasks = self.leases[-1]
        place = self._chance.randrange(len(tasks))
        self._kill(tasks[place])
        tasks[place] = self._start(tasks[place].assignment)

    def end_oldest(self) -> None:
        """Kill the tasks of the oldest lease."""
        for task in self.leases.pop(0):
            self._kill(task)

    def stall(self, seconds: float) -> None:
        """Suspend one of the newest tasks for ``seconds``, with the entries that it has read."""
        self._chance.choice(self.leases[-1]).stalled_until = self._scheduler.now + seconds

    def lose(self) -> None:
        """Lose some of the entries that one of the newest tasks reads next."""
        self._chance.choice(self.leases[-1]).is_losing = True

    def _start(self, assignment: Assignment) -> PipelineTask:
        self._attempts += 1
        machine = MachineLoop(self._scheduler, f"{self.target}.task-{self._attempts}", self._network)
        task = PipelineTask(machine, assignment, self._sources, self._chance)
        machine.call_later(self._chance.uniform(0.0, 0.3), task.begin)
        return task

    def _kill(self, task: PipelineTask) -> None:
        task.machine.die()
        self._network.break_all_of(task.machine)


def _address(name: str) -> ClusterAddress:
    return ClusterAddress(name, f"pulsar://{name}:{PORT}", "")
