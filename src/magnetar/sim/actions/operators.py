"""Operators: skipping, clearing and expiring the backlog of a subscription in one cluster, and trimming behind it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.sim.actions.brokers import Brokers
from magnetar.sim.actions.clients.producers import Producers
from magnetar.sim.actions.pipelines import STALLED_S
from magnetar.sim.operators import Operators
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.clients.producer import SimProducer
    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica, Site

SKIPPED_MAX = 6
"""Maximum number of entries that an operator skips."""

EXPIRED_S = (1, 12)
"""Bounds of the age of expired entries, in seconds."""

SNAPSHOT_S = (0.2, 1.0)
"""Bounds of the time until a snapshot has passed a message, in seconds."""

ARRIVED_S = 0.1
"""Seconds until an entry has arrived and a backlog can be cleared."""

CLEARED_S = 0.2
"""Seconds until a backlog is cleared, and until a topic is loaded again."""


class Operations(ActionGroup):
    """See the module."""

    name = "operators"
    share = 0.8

    def __init__(self, simulation: Simulation) -> None:
        """Create the operators of ``simulation``."""
        super().__init__(simulation)
        self._operators = Operators(simulation.checks)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("operator skips", 1, lambda: self._on_some(self._skip)),
            Action("operator clears the backlog", 1, lambda: self._on_some(self._operators.clear)),
            Action("operator expires", 1, lambda: self._on_some(self._expire)),
            Action("operator clears all before a trim", 8, self._clear_before_trim, is_fault=True),
            Action("operator clears all around a message for another cluster", 4, self._clear_around),
        )

    def _clear_around(self) -> bool:
        """Clear all where a message in between did not go: the update of a snapshot must leave it out."""
        scenario = self.simulation.scenario
        if scenario.markers is None or not scenario.replicate_to or len(scenario.clusters) < 3:
            return False
        producer = self.chance.choice(self.simulation.producers)
        only_to, cleared = self.chance.sample([name for name in scenario.clusters if name != producer.cluster], 2)
        for chosen in ("", only_to, ""):
            self.simulation.group(Producers).publish_one(producer, only_to=chosen)
        replica = self.simulation.sites[cleared].replicas[producer.topic]
        self.simulation.later(self.chance.uniform(*SNAPSHOT_S), partial(self._clear_all, replica))
        return True

    def _clear_all(self, replica: Replica) -> None:
        if self.simulation.is_healed or replica.topic is None:
            return
        for subscription in replica.topic.subscriptions.values():
            if subscription.is_durable:
                self._operators.clear(replica, subscription.name)

    def _clear_before_trim(self) -> bool:
        """Publish while links stand still, and clear all backlogs, so that only links need the closed ledger."""
        producer = self.chance.choice(self.simulation.producers)
        for pipeline in self.simulation.pipelines:
            pipeline.stall(self.chance.uniform(*STALLED_S))
        self.simulation.group(Producers).publish_one(producer)
        replica = self.simulation.replica_of(producer)
        self.simulation.later(ARRIVED_S, partial(self._clear_all, replica))
        self.simulation.later(ARRIVED_S + CLEARED_S, partial(self._close_now, replica, producer))
        return True

    def _close_now(self, replica: Replica, producer: SimProducer) -> None:
        """Close the ledger, and publish in the next one, so that the closed one can be trimmed."""
        if self.simulation.is_healed or replica.topic is None:
            return
        self.simulation.group(Brokers).unload(replica)
        if producer in self.simulation.producers:
            self.simulation.group(Producers).publish_one(producer)
        self.simulation.later(CLEARED_S, partial(self._trim_now, replica.site))

    def _trim_now(self, site: Site) -> None:
        if site.running:
            self.simulation.group(Brokers).trim(site)

    def _skip(self, replica: Replica, subscription: str) -> None:
        self._operators.skip(replica, subscription, self.chance.randint(1, SKIPPED_MAX))

    def _expire(self, replica: Replica, subscription: str) -> None:
        self._operators.expire(replica, subscription, self.chance.randint(*EXPIRED_S))

    def _on_some(self, work: Callable[[Replica, str], None]) -> bool:
        """Call ``work`` with a random subscription in a random cluster, if there is one."""
        found = [
            (replica, subscription.name)
            for replica in self.simulation.loaded()
            for subscription in (replica.topic.subscriptions.values() if replica.topic else ())
            if subscription.is_durable
        ]
        if found:
            work(*self.chance.choice(found))
        return bool(found)
