"""Migration fences: a fenced topic takes no publishes of clients, sends nothing, and once closed has no consumers.

A decision holds over restarts, until somebody asks to remove it. So after it, clients publish nothing in the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.position import EARLIEST
from magnetar.broker.migration_fence.transitions import Phase
from magnetar.sim.actions.fences import Fences
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.broker.migration_fence.transitions import Fence
    from magnetar.broker.topic.topic import Topic
    from magnetar.sim.actions.fences import Confirmed
    from magnetar.sim.site import Replica

_ORDER: Final = {phase: number for number, phase in enumerate(Phase)}


class FencedTopics(Invariant):
    """See the module."""

    counted = tuple(f"topic fenced: {phase.value}" for phase in Phase)

    def check(self) -> None:
        """See Invariant."""
        confirmed = self.simulation.group(Fences).confirmed
        for replica, found in tuple(confirmed.items()):
            if self._is_over(replica, found):
                del confirmed[replica]
            elif replica.topic is not None:
                problem = _problem(replica, replica.topic, found)
                if problem:
                    self._violate(replica, found, problem)
                self.simulation.count(f"topic fenced: {found.wanted.phase}")

    def missing(self) -> str:
        """See Invariant. No topic stays fenced."""
        fenced = [
            f"{replica.name.local_name} in {replica.cluster}"
            for replica in self.simulation.loaded()
            if replica.topic is not None and replica.topic.log.migration_fence.is_set
        ]
        return f"{', '.join(fenced)} is fenced" if fenced else ""

    def _is_over(self, replica: Replica, found: Confirmed) -> bool:
        """Return whether the fence may have ended: the disk was lost, or a lease may be over."""
        checks = self.simulation.checks.topics[replica.name]
        model = checks.model
        if model.generations[replica.cluster] != found.generation:
            is_lost_with_disk = model.disk_generations.get(replica.cluster) == model.generations[replica.cluster]
            if not is_lost_with_disk and checks.lost_at[replica.cluster] < found.until:
                self._violate(replica, found, "it is deleted")
            return True
        return found.is_over(replica)

    def _violate(self, replica: Replica, found: Confirmed, problem: str) -> None:
        where = f"{replica.name.local_name} in {replica.cluster}"
        self.simulation.checks.violate(f"F: {where} is fenced ({found.wanted}), and {problem}")


def _problem(replica: Replica, topic: Topic, found: Confirmed) -> str:
    """Return what a fenced topic must not have done; empty if there is nothing."""
    if not _is_at_least(topic.log.migration_fence.present, found):
        return f"its fence is {topic.log.migration_fence.present}"
    own = topic.log.index.last_position(replica.cluster)
    if (own or EARLIEST) > (found.last_own or EARLIEST):
        return f"clients published up to {own}, after {found.last_own}"
    if any(True for _ in topic.producers.clients()):
        return "a producer is connected"
    for subscription in topic.subscriptions.values():
        if not subscription.is_durable:
            continue
        sent = subscription.consumers.counters()[0]
        if sent != found.sent.get(subscription, 0):
            return f"{subscription.name} has sent {sent} messages, before {found.sent.get(subscription, 0)}"
        if found.wanted.phase != "settling" and subscription.consumers:
            return f"{subscription.name} has consumers"
    return ""


def _is_at_least(present: Fence | None, found: Confirmed) -> bool:
    """Return whether a fence is the confirmed one, or what its migration has made of it meanwhile."""
    if present is None or present.migration != found.wanted.migration:
        return False
    wanted = found.wanted.epoch, _ORDER[Phase(found.wanted.phase)]
    return (present.epoch, _ORDER[present.phase]) >= wanted
