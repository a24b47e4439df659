"""``journalSyncData=false``: the entries and acknowledgements that a loss of power may remove, and the consequences.

A loss of power may remove everything written since the last moment at which the whole disk was synced: entries at the
end of a topic's log, and acknowledgements, seeks and merged progress that were confirmed since then. A killed process
loses nothing. Everything else is checked as in other runs. For the lost entries:

* they are the last ones of their topic, and their positions hold no other entry later;
* other clusters need not get them from their origin; clusters that have them keep them, and there they count as
  acknowledged only if a client acknowledged them;
* the cluster gets lost entries of other clusters again, if their origins still have them.

Two more checks are weaker. Progress that a cluster sent before it lost power does not count as a promise, because a
marker may arrive later. A lost seek may be followed by another one in the same epoch: acknowledgements of both count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.checks.model import Promise

if TYPE_CHECKING:
    from magnetar.sim.checks.model import Entry, Model
    from magnetar.sim.site import Replica


class Unsynced:
    """The synced state of one topic in each cluster, and the losses that are possible."""

    def __init__(self, model: Model, *, sync: bool) -> None:
        """Begin without entries; with ``sync`` no reported entry may be lost."""
        self._model = model
        self._sync = sync
        self._safe: dict[str, Position] = {}
        """By cluster, the newest synced position."""
        self._promises: dict[tuple[str, str], Promise] = {}
        """By cluster and subscription, the confirmed and synced state."""
        self._forgetful: set[str] = set()
        """Clusters that have lost power."""
        self._unseen: set[str] = set()
        """Clusters whose log was not read since."""

    def synced(self, cluster: str) -> None:
        """Record that everything in the model of a cluster is synced."""
        entries = self._model.logs[cluster].entries
        self._safe[cluster] = entries[-1][0] if entries else EARLIEST
        for key, promise in self._model.promises.items():
            if key[0] == cluster:
                self._promises[key] = Promise(promise.epoch, dict(promise.acknowledged))

    def lose(self, cluster: str) -> None:
        """Forget a cluster that lost the topic."""
        self._safe.pop(cluster, None)
        self._unseen.discard(cluster)
        self._promises = {key: promise for key, promise in self._promises.items() if key[0] != cluster}

    def keeps(self, cluster: str) -> bool:
        """Return whether a cluster still has everything that it ever sent to others."""
        return cluster not in self._forgetful

    def power_lost(self, cluster: str) -> None:
        """Reset the confirmed state of a cluster to the synced one."""
        if self._sync:
            return
        self._forgetful.add(cluster)
        self._unseen.add(cluster)
        for key in [each for each in self._model.promises if each[0] == cluster]:
            kept = self._promises.get(key, Promise())
            self._model.promises[key] = Promise(kept.epoch, dict(kept.acknowledged))

    def accept(self, replica: Replica, known: list[tuple[Position, Entry]], found: list[tuple[Position, Entry]]) -> int:
        """Remove entries from the model that a loss of power may have removed; return how many of ``known`` are left.

        ``known`` and ``found`` are a cluster's log before and after. Nothing is removed if the difference is not
        allowed.
        """
        cluster = replica.cluster
        if cluster not in self._unseen:
            return len(known)
        self._unseen.discard(cluster)
        common = next(
            (at for at, (one, other) in enumerate(zip(known, found, strict=False)) if one != other),
            min(len(known), len(found)),
        )
        if common == len(known) or known[common][0] <= self._safe.get(cluster, EARLIEST):
            return len(known)
        if common < len(found) and found[common][0] <= known[-1][0]:
            return len(known)
        self._model.cut(cluster, known[common][0])
        return common
