"""Bit rot: a bit of a stored entry flips on a disk, until an operator restores the segment from a copy."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError
from magnetar.base.position import EARLIEST
from magnetar.ledger.medium.local import segment_sequences
from magnetar.ledger.segments.segment import refuse_synced_damage
from magnetar.sim.actions.clients.producers import Producers
from magnetar.sim.scenario import SHARING, SUBSCRIPTION_TYPES
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from magnetar.base.names import TopicName
    from magnetar.sim.site import Replica, Site

PUBLISHED = 4
"""Number of entries published right before the damage, so that a recent entry is damaged."""

SOON_S = (0.002, 0.1)
"""Bounds of the delay before the broker is killed, in seconds: some consumers or links have not received the entries.
"""

RESTORED_S = (3.0, 15.0)
"""Bounds of the time until an operator restores the copy, in seconds."""

NEWEST_ENTRIES = 6
"""The damaged entry is among this number of newest entries."""

MAGIC_BYTES = 2
"""The first bytes of an entry, which mark its checksum. A broker refuses to start if they are damaged (ADR 14)."""


class BitRot(ActionGroup):
    """See the module. The entry is neither delivered nor acknowledged meanwhile, and delivered to everyone afterwards.

    The bit flips while the broker is down, because a running one has the newest entries in its cache.
    """

    name = "bit rot"
    share = 0.2
    counted = ("entry damaged", "damaged entry found", "damaged entry restored")

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("messages published before bit rot", 8, self._damage, is_fault=True),)

    def heal(self) -> None:
        """See ActionGroup."""
        for site in self.simulation.sites.values():
            self._restore(site)

    def _damage(self) -> bool:
        """Publish in a cluster with a cumulatively acknowledging consumer, and damage an entry a moment later."""
        producer = self.chance.choice(self.simulation.producers)
        self._have_consumer(producer.topic, producer.cluster)
        for _ in range(PUBLISHED):
            self.simulation.group(Producers).publish_one(producer)
        replica = self.simulation.sites[producer.cluster].replicas[producer.topic]
        self.simulation.later(self.chance.uniform(*SOON_S), lambda: self._damage_in(replica))
        return True

    def _have_consumer(self, topic: TopicName, cluster: str) -> None:
        """Create a consumer that acknowledges cumulatively, if a subscription allows it."""
        names = [name for name in self.simulation.scenario.subscriptions if SUBSCRIPTION_TYPES[name] not in SHARING]
        there = {
            each.subscription for each in self.simulation.consumers if (each.topic, each.cluster) == (topic, cluster)
        }
        if names and there.isdisjoint(names):
            self.simulation.add_consumer(topic, self.chance.choice(names), cluster, earliest=True)

    def _damage_in(self, replica: Replica) -> None:
        if replica.topic is None or replica.site.disk.rot or self.simulation.is_healed:
            return
        self.simulation.checks.look_at_logs(replica.site)
        held = list(replica.durable_entries(EARLIEST))[-NEWEST_ENTRIES:]
        site = replica.site
        self.simulation.kill(site)
        found = ((position, entry, site.disk.find(entry)) for position, entry in held)
        proven = [(position, entry, *at) for position, entry, at in found if at is not None and _is_proven(site, *at)]
        if not proven:
            return
        position, entry, path, start = self.chance.choice(proven)
        rotten = bytearray(entry)
        rotten[self.chance.randrange(MAGIC_BYTES, len(entry))] ^= 1 << self.chance.randrange(8)
        site.disk.damage(path, start, entry, bytes(rotten))
        self.simulation.checks.topics[replica.name].damaged(site.name, position)
        self.simulation.note(site.name, f"the entry of {replica.name.local_name} at {position} is damaged")
        self.simulation.count("entry damaged")
        restored_s = self.chance.uniform(*RESTORED_S)
        self.simulation.later(restored_s - 0.5, partial(self._acknowledge_behind, site))
        self.simulation.later(restored_s, partial(self._restore, site))

    def _acknowledge_behind(self, site: Site) -> None:
        """Acknowledge cumulatively all received entries, including entries after the damaged one.

        Has no effect in the liveness phase. A Shared or Key_Shared subscription refuses a cumulative
        acknowledgement, but the consumer drops its entries, so they would stay unacknowledged.
        """
        if self.simulation.is_healed:
            return
        for consumer in self.simulation.consumers:
            if consumer.cluster == site.name and consumer.held:
                consumer.acknowledge_through(max(consumer.held.values(), key=attrgetter("position")), confirmed=True)

    def _restore(self, site: Site) -> None:
        """Restore the copy while the broker is down, unless the disk was replaced in the meantime."""
        if not site.disk.rot:
            return
        found = [replica for replica in site.replicas.values() if replica.topic and replica.topic.log.damaged]
        self.simulation.count("damaged entry found", len(found))
        self.simulation.kill(site)
        site.disk.restore()
        self.simulation.note(site.name, "the damaged entry is restored")
        self.simulation.count("damaged entry restored")


def _is_proven(site: Site, path: Path, offset: int) -> bool:
    """Return whether a record after ``offset`` proves that no crash tore the damaged one; otherwise a start cuts it."""
    try:
        refuse_synced_damage(bytes(site.disk.nodes[path].data), segment_sequences([path.name])[0], offset, path.name)
    except CorruptionError:
        return True
    return False
