"""Processes: brokers lose power or are killed, also while somebody waits for a write; brokers and tasks are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.happenings.clients.consumers import Consumers
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.site import Site
    from magnetar.sim.virtual.scheduler import MachineLoop

SOON_S = (0.0, 0.03)
"""How soon a crash may come after what it is to interrupt."""

STOPPED_S = (0.5, 2.0, 5.0, 12.0, 35.0)
"""For how long a process may be stopped; the longest exceeds the time-outs of its peers."""


class Processes(Happening):
    """See the module."""

    name = "processes"

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("crash", 2, lambda: self._on_some(self.world.crash), is_fault=True),
            Action("kill", 2, lambda: self._on_some(self.world.kill), is_fault=True),
            Action("crash in the middle", 4, self._crash_soon, is_fault=True),
            Action("broker stopped", 2, self._stop_broker, is_fault=True),
            Action("pipeline task stopped", 1, self._stop_task, is_fault=True),
        )

    def heal(self) -> None:
        """See Happening."""
        for site in self.world.sites.values():
            self.world.start(site)

    def _on_some(self, end: Callable[[Site], None]) -> bool:
        """End some broker, if one runs."""
        running = self.world.running()
        if running:
            end(self.chance.choice(running))
        return bool(running)

    def _crash_soon(self) -> bool:
        """Crash where somebody is just waiting to hear that what was done is durable."""
        consumers = self.world.kind(Consumers)
        consumer = consumers.holding()
        if consumer is None:
            return False
        self.chance.choice((consumers.acknowledge, consumers.acknowledge_through, consumers.seek))()
        consumer.acknowledge(list(consumer.held.values())[:2], confirmed=True)
        site = self.world.sites[consumer.cluster]
        self.world.later(self.chance.uniform(*SOON_S), lambda: self.world.crash(site))
        return True

    def _stop_broker(self) -> bool:
        running = self.world.running()
        return bool(running) and self._stop(self.chance.choice(running).loop)

    def _stop_task(self) -> bool:
        tasks = [task for relay in self.world.relays for task in relay.tasks]
        return bool(tasks) and self._stop(self.chance.choice(tasks).machine)

    def _stop(self, loop: MachineLoop) -> bool:
        seconds = self.chance.choice(STOPPED_S)
        self.world.note(loop.name, f"is stopped for {seconds:g} s")
        loop.stopped_until = max(loop.stopped_until, self.world.scheduler.now + seconds)
        return True
