"""Processes: brokers lose power or are killed, also during a write; brokers and tasks are suspended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.actions.brokers import Brokers
from magnetar.sim.actions.clients.consumers import Consumers
from magnetar.sim.actions.clients.producers import Producers
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.metadata.store import Change
    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.site import Replica, Site
    from magnetar.sim.virtual.scheduler import MachineLoop

SOON_S = (0.0, 0.03)
"""Bounds of the delay between an operation and the crash that interrupts it, in seconds."""

LISTED_S = (0.001, 0.01)
"""Maximum delays between a durable list of ledgers and a crash, in seconds. The shorter one mostly precedes a sync."""

ENTRIES_BEFORE = 3
"""Number of entries that are published before a ledger is closed."""

ARRIVED_S = (0.02, 0.1)
"""Bounds of the delay until the ledger is closed, in seconds: messages arrive meanwhile."""

STOPPED_S = (0.5, 2.0, 5.0, 12.0, 35.0)
"""Durations of suspensions; the longest exceeds the time-outs of the peers."""


class Processes(ActionGroup):
    """See the module."""

    name = "processes"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("crash", 2, lambda: self._on_some(self.simulation.crash), is_fault=True),
            Action("kill", 2, lambda: self._on_some(self.simulation.kill), is_fault=True),
            Action("crash in the middle", 4, self._crash_soon, is_fault=True),
            Action("crash behind a closed ledger", 8, self._crash_behind_unload, is_fault=True),
            Action("crash behind a deletion", 4, self._crash_behind_deletion, is_fault=True),
            Action("broker stopped", 2, self._stop_broker, is_fault=True),
            Action("pipeline task stopped", 1, self._stop_task, is_fault=True),
        )

    def heal(self) -> None:
        """See ActionGroup."""
        for site in self.simulation.sites.values():
            self.simulation.start(site)

    def _on_some(self, end: Callable[[Site], None]) -> bool:
        """End a random running broker with ``end``."""
        running = self.simulation.running()
        if running:
            end(self.chance.choice(running))
        return bool(running)

    def _crash_soon(self) -> bool:
        """Crash a broker while a client waits for the durability of an operation."""
        consumers = self.simulation.group(Consumers)
        consumer = consumers.holding()
        if consumer is None:
            return False
        self.chance.choice((consumers.acknowledge, consumers.acknowledge_through, consumers.seek))()
        consumer.acknowledge(list(consumer.held.values())[:2], confirmed=True)
        site = self.simulation.sites[consumer.cluster]
        self.simulation.later(self.chance.uniform(*SOON_S), lambda: self.simulation.crash(site))
        return True

    def _crash_behind_unload(self) -> bool:
        """Crash a broker that does not sync entries, right after it has closed a ledger with new ones."""
        if self.simulation.scenario.sync:
            return False
        producer = self.chance.choice(self.simulation.producers)
        for _ in range(ENTRIES_BEFORE):
            self.simulation.group(Producers).publish_one(producer)
        replica = self.simulation.replica_of(producer)
        self.simulation.later(self.chance.uniform(*ARRIVED_S), partial(self._crash_behind_unload_now, replica))
        return True

    def _crash_behind_unload_now(self, replica: Replica) -> None:
        if self.simulation.is_healed or replica.topic is None:
            return
        self.simulation.group(Brokers).unload(replica)
        self._crash_once_listed(replica)

    def _crash_behind_deletion(self) -> bool:
        """Crash a broker right after a client has deleted a subscription of a topic with new entries."""
        consumer = self.simulation.group(Consumers).holding()
        if consumer is None:
            return False
        for producer in self.simulation.producers:
            if (producer.topic, producer.cluster) == (consumer.topic, consumer.cluster):
                self.simulation.group(Producers).publish_one(producer)
        self.simulation.later(self.chance.uniform(*ARRIVED_S), partial(self._crash_behind_deletion_now, consumer))
        return True

    def _crash_behind_deletion_now(self, consumer: SimConsumer) -> None:
        if self.simulation.is_healed or consumer not in self.simulation.consumers:
            return
        self._crash_once_listed(self.simulation.replica_of(consumer))
        self.simulation.group(Consumers).unsubscribe_with(consumer)

    def _crash_once_listed(self, replica: Replica) -> None:
        """Crash a broker right after the next list of ledgers of a topic is durable, with tombstones and properties."""
        site, seconds = replica.site, self.chance.uniform(0.0, self.chance.choice(LISTED_S))

        def changed(_: Change) -> None:
            end()
            if not self.simulation.is_healed:
                self.simulation.later(seconds, lambda: self.simulation.crash(site))

        end = site.metadata.watch(managed_ledger_path(replica.name), changed)

    def _stop_broker(self) -> bool:
        running = self.simulation.running()
        return bool(running) and self._stop(self.chance.choice(running).loop)

    def _stop_task(self) -> bool:
        tasks = [task for pipeline in self.simulation.pipelines for task in pipeline.tasks]
        return bool(tasks) and self._stop(self.chance.choice(tasks).machine)

    def _stop(self, loop: MachineLoop) -> bool:
        seconds = self.chance.choice(STOPPED_S)
        self.simulation.note(loop.name, f"is stopped for {seconds:g} s")
        loop.stopped_until = max(loop.stopped_until, self.simulation.scheduler.now + seconds)
        return True
