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
    from magnetar.base.position import Position
    from magnetar.sim.clients.producer import SimProducer
    from magnetar.sim.site import Replica, Site

PUBLISHED = 4
"""Number of entries published right before the damage, so that a recent entry is damaged."""

SOON_S = (0.01, 0.1)
"""Maximum delays before the broker is killed, in seconds: mostly, no link or consumer has received the entries."""

BEHIND_S = 1.0
"""Seconds until more entries are published."""

FOUND_S = (2.0, 4.0)
"""Bounds of the time after which an operator looks whether the broker has found the damage, in seconds."""

LOOK_EVERY_S = 0.5
"""Seconds between two looks, and between the last one and the restoration of the copy."""

RESTORED_S = 12.0
"""Seconds after which an operator restores the copy of an entry that nobody has read."""

NEWEST_ENTRIES = 4
"""The damaged entry is among this number of newest entries."""

MAGIC_BYTES = 2
"""The first bytes of an entry, which mark its checksum. A broker refuses to start if they are damaged (ADR 14)."""


class BitRot(ActionGroup):
    """See the module. The entry is neither delivered nor acknowledged meanwhile, and delivered to everyone afterwards.

    The bit flips while the broker is down, because a running one has the newest entries in its cache.
    """

    name = "bit rot"
    share = 0.4
    counted = ("entry damaged", "damaged entry found", "damaged entry restored")

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("messages published before bit rot", 12, self._damage, is_fault=True),)

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
        replica = self.simulation.replica_of(producer)
        soon_s = self.chance.uniform(0.002, self.chance.choice(SOON_S))
        self.simulation.later(soon_s, lambda: self._damage_in(replica, producer))
        return True

    def _have_consumer(self, topic: TopicName, cluster: str) -> None:
        """Create a consumer that acknowledges cumulatively, if a subscription allows it."""
        names = [name for name in self.simulation.scenario.subscriptions if SUBSCRIPTION_TYPES[name] not in SHARING]
        there = {
            each.subscription for each in self.simulation.consumers if (each.topic, each.cluster) == (topic, cluster)
        }
        if names and there.isdisjoint(names):
            self.simulation.add_consumer(topic, self.chance.choice(names), cluster, earliest=True)

    def _damage_in(self, replica: Replica, producer: SimProducer) -> None:
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
        fresh = [each for each in proven if self._is_only_in(replica, each[0])]
        position, entry, path, start = self.chance.choice(self.chance.choice((fresh, proven)) or proven)
        rotten = bytearray(entry)
        rotten[self.chance.randrange(MAGIC_BYTES, len(entry))] ^= 1 << self.chance.randrange(8)
        site.disk.damage(path, start, entry, bytes(rotten))
        self.simulation.checks.topics[replica.name].damaged(site.name, position)
        self.simulation.note(site.name, f"the entry of {replica.name.local_name} at {position} is damaged")
        self.simulation.count("entry damaged")
        restored_at = self.simulation.scheduler.now + RESTORED_S
        self.simulation.later(BEHIND_S, partial(self._publish_behind, producer))
        self.simulation.later(self.chance.uniform(*FOUND_S), partial(self._restore_if_found, site, restored_at))

    def _is_only_in(self, replica: Replica, position: Position) -> bool:
        """Return whether no other cluster has an entry, so that links meet the damage."""
        logs = self.simulation.checks.topics[replica.name].model.logs
        text = logs[replica.cluster].at[position].text
        return sum(text in log.places for log in logs.values()) == 1

    def _publish_behind(self, producer: SimProducer) -> None:
        """Publish entries behind the damaged one, for a consumer that acknowledges cumulatively."""
        if self.simulation.is_healed or producer not in self.simulation.producers:
            return
        self.simulation.start(self.simulation.sites[producer.cluster])
        self._have_consumer(producer.topic, producer.cluster)
        for _ in range(PUBLISHED):
            self.simulation.group(Producers).publish_one(producer)

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

    def _restore_if_found(self, site: Site, restored_at: float) -> None:
        """Restore the copy when the broker has found the damage, at ``restored_at`` at the latest."""
        if not self.simulation.is_healed and self.simulation.scheduler.now < restored_at and not _finders(site):
            self.simulation.later(LOOK_EVERY_S, partial(self._restore_if_found, site, restored_at))
            return
        self._acknowledge_behind(site)
        self.simulation.later(LOOK_EVERY_S, partial(self._restore, site))

    def _restore(self, site: Site) -> None:
        """Restore the copy while the broker is down, unless the disk was replaced in the meantime."""
        if not site.disk.rot:
            return
        self.simulation.count("damaged entry found", len(_finders(site)))
        self.simulation.kill(site)
        site.disk.restore()
        self.simulation.note(site.name, "the damaged entry is restored")
        self.simulation.count("damaged entry restored")


def _finders(site: Site) -> list[Replica]:
    """Return the topics whose damage the broker has found since its start."""
    return [replica for replica in site.replicas.values() if replica.topic and replica.topic.log.damaged]


def _is_proven(site: Site, path: Path, offset: int) -> bool:
    """Return whether a record after ``offset`` proves that no crash tore the damaged one; otherwise a start cuts it."""
    try:
        refuse_synced_damage(bytes(site.disk.nodes[path].data), segment_sequences([path.name])[0], offset, path.name)
    except CorruptionError:
        return True
    return False
