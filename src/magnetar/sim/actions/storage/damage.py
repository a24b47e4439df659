"""Damage: the metadata of one topic in one cluster is unreadable until an operator restores a copy."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from magnetar.broker.topic.load_failures import LOAD_RETRY_DELAY_S
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica

RESTORED_S = (1.0, 8.0)
"""Bounds of the time until an operator restores the copy, in seconds."""


class Damage(ActionGroup):
    """See the module.

    Only the topic is unavailable: the broker starts and serves other topics over the same connections.
    """

    name = "damage"
    share = 0.2
    counted = ("damaged topic refused", "damaged topic restored")

    def __init__(self, simulation: Simulation) -> None:
        """Begin without damage."""
        super().__init__(simulation)
        self._damaged: dict[str, tuple[Replica, str, bytes]] = {}
        """By cluster, the damaged topic, the path of its metadata, and the original value."""

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("metadata of a topic damaged", 2, self._damage, is_fault=True),)

    def heal(self) -> None:
        """See ActionGroup."""
        for cluster in tuple(self._damaged):
            self._restore(cluster)

    def _damage(self) -> bool:
        """Damage the ledger list, or the reference to a cursor, of a topic whose broker is down for a moment."""
        replicas = [replica for replica in self.simulation.loaded() if replica.cluster not in self._damaged]
        if not replicas:
            return False
        replica = self.chance.choice(replicas)
        site = replica.site
        self.simulation.kill(site)
        path = managed_ledger_path(replica.name)
        cursors = [f"{path}/cursors/{name}" for name in site.metadata.children(f"{path}/cursors")]
        damaged = self.chance.choice((path, self.chance.choice(cursors))) if cursors else path
        if not site.metadata.damage(damaged, self.chance):
            return False
        written = site.metadata.written(damaged)
        assert written is not None
        self._damaged[site.name] = replica, damaged, written.value
        self.simulation.note(site.name, f"{damaged} is damaged")
        self.simulation.later(self.chance.uniform(*RESTORED_S), partial(self._restore, site.name))
        return True

    def _restore(self, cluster: str) -> None:
        """Restore the copy, unless the topic was deleted in the meantime or the disk was replaced."""
        if cluster not in self._damaged:
            return
        replica, path, written = self._damaged.pop(cluster)
        site, is_loaded = replica.site, replica.topic is not None
        self.simulation.count(
            "damaged topic refused", site.running and replica.name in site.topics.load_failures.reasons
        )
        if not site.metadata.restore(path):
            site.given_up.update(_ledgers_in(written))
            return
        if is_loaded:
            where = f"{replica.name.local_name} in {cluster}"
            self.simulation.checks.violate(f"E: {where} is loaded, but its metadata at {path} is damaged")
        self.simulation.note(cluster, f"{path} is restored")
        self.simulation.count("damaged topic restored")
        self.simulation.later(LOAD_RETRY_DELAY_S, partial(self._load, replica))

    def _load(self, replica: Replica) -> None:
        if replica.site.running:
            replica.site.loop.call_soon(replica.site.topics.linked.retry)


def _ledgers_in(stored: bytes) -> list[int]:
    """Return the ledger ids in a stored ledger list or reference to a cursor."""
    named = json.loads(stored)
    return [each["ledgerId"] for each in named["ledgers"]] if "ledgers" in named else [named["cursorsLedgerId"]]
