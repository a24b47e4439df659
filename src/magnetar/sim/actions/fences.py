"""Migration fences: migrations fence topics, close and decide, release, and remove decisions, also at the same time.

Each keeps a note of what the broker has confirmed to it, from which the invariant knows what must hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from magnetar.admin.fence_service import WantedFence
from magnetar.base.errors import MagnetarError
from magnetar.broker.admin.fences.operations import FenceOperations
from magnetar.sim.actions.storage.lives import Topics
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica, Site

    Phase = Literal["settling", "closed", "final"]

MIGRATIONS: Final = ("m", "m", "m", "n")
"""Names of the migrations, by their share."""

LEASES_S: Final = (0.3, 2.0, 6.0)
"""Leases of fences, in seconds."""

FOLLOWING: Final[dict[Phase, Phase]] = {"settling": "closed", "closed": "final", "final": "final"}
"""The phase that a migration sets next."""

ORDER: Final[tuple[Phase, ...]] = ("settling", "closed", "final")
"""The phases, in the order in which they follow."""

KILLED_SHARE: Final = 0.3
"""Share of the decisions after which the broker is killed."""

KILLED_S: Final = 0.1
"""Maximum virtual seconds between such a decision and the end of the broker."""

CLEARED_S: Final = 1.0
"""Seconds between two attempts to remove all fences, after the faults."""


@dataclass
class Confirmed:
    """A fence that a broker has confirmed, and that nobody has asked to remove since."""

    wanted: WantedFence
    topic: Topic
    """The topic when the fence was set; a lease counts only until it is loaded again."""
    generation: int
    until: float
    """End of the lease on the monotonic clock; infinite for a decision."""
    last_own: Position | None
    """The last entry that clients published in the cluster."""
    sent: dict[Subscription, int] = field(default_factory=dict)
    """Messages sent to consumers of durable subscriptions; 0 for those that were loaded later."""

    def is_over(self, replica: Replica) -> bool:
        """Return whether the fence may have ended: its lease may be over."""
        if self.wanted.phase == "final":
            return False
        return replica.topic is not self.topic or replica.site.clock.monotonic() >= self.until


def may_follow(before: WantedFence, after: WantedFence) -> bool:
    """Return whether a fence may replace a confirmed one."""
    is_later = (after.epoch, ORDER.index(after.phase)) >= (before.epoch, ORDER.index(before.phase))
    is_of_decision = before.phase == "final" and after.epoch != before.epoch
    return before.migration == after.migration and is_later and not is_of_decision


class Fences(ActionGroup):
    """See the module."""

    name = "fences"
    share = 0.4

    def __init__(self, simulation: Simulation) -> None:
        """Begin without fences."""
        super().__init__(simulation)
        self.confirmed: dict[Replica, Confirmed] = {}
        self._attempts: dict[Replica, WantedFence] = {}
        """The newest request for each topic in each cluster."""

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("topic fenced", 3, self._fence),
            Action("fence moved on", 6, self._move_on),
            Action("fence released", 1.5, self._release),
            Action("decision removed", 1, partial(self._release, is_decision=True)),
            Action("fenced topic to be deleted", 1, self._delete),
        )

    def heal(self) -> None:
        """Remove all fences, also those that a restart brings back."""
        if self.simulation.scenario.weight(self.name):
            for site in self.simulation.running():
                site.loop.create_task(self._remove_all(site))
            self.simulation.later(CLEARED_S, self.heal)

    # -- actions ------------------------------------------------------------------------------------------------

    def _fence(self) -> bool:
        replicas = self.simulation.loaded()
        if not replicas:
            return False
        replica = self.chance.choice(replicas)
        before = self._attempts.get(replica)
        epoch = self.chance.choice((1, 2)) if before is None else before.epoch + self.chance.choice((0, 1, 1, 1))
        self._set(replica, WantedFence(self.chance.choice(MIGRATIONS), epoch, "settling", self.chance.choice(LEASES_S)))
        return True

    def _move_on(self) -> bool:
        found = [replica for replica in self._attempts if replica.site.running]
        if not found:
            return False
        replica = self.chance.choice(found)
        before = self._attempts[replica]
        self._set(replica, before._replace(phase=FOLLOWING[before.phase]))
        return True

    def _release(self, *, is_decision: bool = False) -> bool:
        found = [replica for replica in self._attempts if replica.site.running]
        if not found:
            return False
        replica = self.chance.choice(found)
        before = self._attempts[replica]
        confirmed = self.confirmed.get(replica)
        if confirmed is not None and (is_decision or confirmed.wanted.phase != "final"):
            del self.confirmed[replica]  # clients may go on at any time from now on
        self._attempts[replica] = before._replace()  # a request that is not answered yet confirms nothing
        replica.site.loop.create_task(self._remove(replica, before, is_decision=is_decision))
        return True

    def _delete(self) -> bool:
        """Delete a topic with a fence, which must be refused until the fence has ended."""
        found = [replica for replica in self.confirmed if replica.site.running]
        if not found:
            return False
        replica = self.chance.choice(found)
        plan = next(each for each in self.simulation.scenario.plans if replica.name in each.parts)
        self.simulation.group(Topics).delete(replica.site, plan)
        return True

    def _set(self, replica: Replica, wanted: WantedFence) -> None:
        self._attempts[replica] = wanted
        replica.site.loop.create_task(self._put(replica, wanted))

    # -- requests -----------------------------------------------------------------------------------------------

    async def _put(self, replica: Replica, wanted: WantedFence) -> None:
        site, model = replica.site, self.simulation.checks.topics[replica.name].model
        began, generation = site.clock.monotonic(), model.generations[site.name]
        self.simulation.note(site.name, f"{replica.name.local_name} is to be fenced: {wanted}")
        try:
            await FenceOperations(site.environment, site.topics).set(replica.name, wanted, digests=True)
        except MagnetarError as error:
            self.simulation.note(site.name, f"the fence is refused: {error}")
            return
        topic = replica.topic
        if topic is None or self._attempts[replica] is not wanted or self.simulation.is_healed:
            return  # another request may have followed, which removes it
        self.simulation.note(site.name, f"{replica.name.local_name} is fenced")
        before = self.confirmed.get(replica)
        if before is not None and not before.is_over(replica) and not may_follow(before.wanted, wanted):
            self.simulation.checks.violate(f"F: {site.name} is fenced ({before.wanted}), and accepts {wanted}")
        self.confirmed[replica] = Confirmed(
            wanted,
            topic,
            generation,
            math.inf if wanted.phase == "final" else began + wanted.lease_s,
            topic.log.index.last_position(site.name),
            {each: each.consumers.counters()[0] for each in topic.subscriptions.values()},
        )
        if wanted.phase == "final" and self.chance.random() < KILLED_SHARE:
            self.simulation.later(self.chance.uniform(0.0, KILLED_S), lambda: self.simulation.kill(site))

    async def _remove(self, replica: Replica, wanted: WantedFence, *, is_decision: bool) -> None:
        operations = FenceOperations(replica.site.environment, replica.site.topics)
        try:
            await operations.remove(replica.name, wanted.migration, wanted.epoch, is_decision=is_decision)
        except MagnetarError as error:
            self.simulation.note(replica.cluster, f"the fence is not removed: {error}")

    async def _remove_all(self, site: Site) -> None:
        self.confirmed.clear()
        operations = FenceOperations(site.environment, site.topics)
        for replica in site.replicas.values():
            try:
                fence = (await operations.get(replica.name, digests=False)).fence
                if fence is not None:
                    await operations.remove(replica.name, fence.migration, fence.epoch, is_decision=True)
            except MagnetarError as error:
                self.simulation.note(site.name, f"the fence is not removed: {error}")
