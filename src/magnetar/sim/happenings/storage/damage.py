"""Damage: what a cluster's metadata says of one topic cannot be read, until an operator puts a copy back."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from magnetar.broker.topic.load_failures import LOAD_RETRY_DELAY_S
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.site import Replica
    from magnetar.sim.world import World

RESTORED_S = (1.0, 8.0)
"""How long after the damage an operator puts the copy back."""


class Damage(Happening):
    """See the module. Only the topic may refuse: the broker starts, and serves all others over the same connections."""

    name = "damage"
    share = 0.2
    counted = ("damaged topic refused", "damaged topic restored")

    def __init__(self, world: World) -> None:
        """Nothing is damaged."""
        super().__init__(world)
        self._damaged: dict[str, tuple[Replica, str, bytes]] = {}
        """By cluster, the topic that is damaged there, the path of its metadata, and what was there."""

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (Action("metadata of a topic damaged", 2, self._damage, is_fault=True),)

    def heal(self) -> None:
        """See Happening."""
        for cluster in tuple(self._damaged):
            self._restore(cluster)

    def _damage(self) -> bool:
        """Damage the list of ledgers, or what leads to a cursor, of a topic whose broker is down for a moment."""
        replicas = [replica for replica in self.world.loaded() if replica.cluster not in self._damaged]
        if not replicas:
            return False
        replica = self.chance.choice(replicas)
        site = replica.site
        self.world.kill(site)
        path = managed_ledger_path(replica.name)
        cursors = [f"{path}/cursors/{name}" for name in site.metadata.children(f"{path}/cursors")]
        damaged = self.chance.choice((path, self.chance.choice(cursors))) if cursors else path
        if not site.metadata.damage(damaged, self.chance):
            return False
        written = site.metadata.written(damaged)
        assert written is not None
        self._damaged[site.name] = replica, damaged, written.value
        self.world.note(site.name, f"{damaged} is damaged")
        self.world.later(self.chance.uniform(*RESTORED_S), partial(self._restore, site.name))
        return True

    def _restore(self, cluster: str) -> None:
        """Put the copy back, unless the topic was deleted in the meantime, or the disk replaced."""
        if cluster not in self._damaged:
            return
        replica, path, written = self._damaged.pop(cluster)
        site, is_loaded = replica.site, replica.topic is not None
        self.world.count("damaged topic refused", site.running and replica.name in site.topics.load_failures.reasons)
        if not site.metadata.restore(path):
            site.given_up.update(_ledgers_in(written))
            return
        if is_loaded:
            where = f"{replica.name.local_name} in {cluster}"
            self.world.referee.violate(f"E: {where} is loaded, and its metadata at {path} cannot be read")
        self.world.note(cluster, f"{path} is restored")
        self.world.count("damaged topic restored")
        self.world.later(LOAD_RETRY_DELAY_S, partial(self._load, replica))

    def _load(self, replica: Replica) -> None:
        if replica.site.running:
            replica.site.loop.call_soon(replica.site.topics.linked.retry)


def _ledgers_in(stored: bytes) -> list[int]:
    """Return the ledgers that a list of ledgers, or what leads to a cursor, names."""
    named = json.loads(stored)
    return [each["ledgerId"] for each in named["ledgers"]] if "ledgers" in named else [named["cursorsLedgerId"]]
