"""Bit rot: a bit of a stored entry flips on a cluster's disk, until an operator puts the segment back from a copy."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError
from magnetar.base.position import EARLIEST
from magnetar.ledger.medium.local import segment_sequences
from magnetar.ledger.segments.segment import refuse_synced_damage
from magnetar.sim.happenings.clients.producers import Producers
from magnetar.sim.scenario import SHARING, SUBSCRIPTION_TYPES
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from magnetar.base.names import TopicName
    from magnetar.sim.site import Replica, Site

PUBLISHED = 4
"""Entries that are published right before: one of them, or of the few before them, is damaged."""

SOON_S = (0.002, 0.1)
"""How soon after that the broker is killed: some consumers, or links, have not got them."""

RESTORED_S = (3.0, 15.0)
"""How long after the damage an operator puts the copy back."""

NEWEST_ENTRIES = 6
"""The damaged entry is one of so many at the end of the log."""

MAGIC_BYTES = 2
"""The first bytes of an entry, which say that it has a checksum. Without them a start is refused (ADR 14)."""


class BitRot(Happening):
    """See the module. Nobody gets the entry meanwhile, nobody acknowledges it, and afterwards all who want it get it.

    The bit flips while the broker is down, because a running one has the newest entries in its cache.
    """

    name = "bit rot"
    share = 0.2
    counted = ("entry damaged", "damaged entry found", "damaged entry restored")

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (Action("messages published before bit rot", 8, self._damage, is_fault=True),)

    def heal(self) -> None:
        """See Happening."""
        for site in self.world.sites.values():
            self._restore(site)

    def _damage(self) -> bool:
        """Publish, where somebody consumes who acknowledges cumulatively; an entry is damaged a moment later."""
        producer = self.chance.choice(self.world.producers)
        self._have_consumer(producer.topic, producer.cluster)
        for _ in range(PUBLISHED):
            self.world.kind(Producers).publish_one(producer)
        replica = self.world.sites[producer.cluster].replicas[producer.topic]
        self.world.later(self.chance.uniform(*SOON_S), lambda: self._damage_in(replica))
        return True

    def _have_consumer(self, topic: TopicName, cluster: str) -> None:
        """Have a consumer there who acknowledges cumulatively, if any subscription allows it."""
        names = [name for name in self.world.scenario.subscriptions if SUBSCRIPTION_TYPES[name] not in SHARING]
        there = {each.subscription for each in self.world.consumers if (each.topic, each.cluster) == (topic, cluster)}
        if names and there.isdisjoint(names):
            self.world.add_consumer(topic, self.chance.choice(names), cluster, earliest=True)

    def _damage_in(self, replica: Replica) -> None:
        if replica.topic is None or replica.site.disk.rot or self.world.is_healed:
            return
        self.world.referee.look_at_logs(replica.site)
        held = list(replica.durable_entries(EARLIEST))[-NEWEST_ENTRIES:]
        site = replica.site
        self.world.kill(site)
        found = ((position, entry, site.disk.find(entry)) for position, entry in held)
        proven = [(position, entry, *at) for position, entry, at in found if at is not None and _is_proven(site, *at)]
        if not proven:
            return
        position, entry, path, start = self.chance.choice(proven)
        rotten = bytearray(entry)
        rotten[self.chance.randrange(MAGIC_BYTES, len(entry))] ^= 1 << self.chance.randrange(8)
        site.disk.damage(path, start, entry, bytes(rotten))
        self.world.referee.topics[replica.name].damaged(site.name, position)
        self.world.note(site.name, f"the entry of {replica.name.local_name} at {position} is damaged")
        self.world.count("entry damaged")
        restored_s = self.chance.uniform(*RESTORED_S)
        self.world.later(restored_s - 0.5, partial(self._acknowledge_behind, site))
        self.world.later(restored_s, partial(self._restore, site))

    def _acknowledge_behind(self, site: Site) -> None:
        """Have consumers acknowledge cumulatively what they got, among it what lies behind the damaged entry.

        Without effect in peace. A Shared or Key_Shared subscription refuses a cumulative acknowledgement, but the
        consumer forgets its entries, so nobody would acknowledge these any more.
        """
        if self.world.is_healed:
            return
        for consumer in self.world.consumers:
            if consumer.cluster == site.name and consumer.held:
                consumer.acknowledge_through(max(consumer.held.values(), key=attrgetter("position")), confirmed=True)

    def _restore(self, site: Site) -> None:
        """Put the copy back while the broker is down, unless the disk was replaced in the meantime."""
        if not site.disk.rot:
            return
        found = [replica for replica in site.replicas.values() if replica.topic and replica.topic.log.damaged]
        self.world.count("damaged entry found", len(found))
        self.world.kill(site)
        site.disk.restore()
        self.world.note(site.name, "the damaged entry is restored")
        self.world.count("damaged entry restored")


def _is_proven(site: Site, path: Path, offset: int) -> bool:
    """Whether a record behind ``offset`` proves that a crash did not tear what is there: otherwise a start cuts it."""
    try:
        refuse_synced_damage(bytes(site.disk.nodes[path].data), segment_sequences([path.name])[0], offset, path.name)
    except CorruptionError:
        return True
    return False
