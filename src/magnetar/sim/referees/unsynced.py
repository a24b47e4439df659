"""Worlds with ``journalSyncData=false``: exactly what a loss of power may take from a cluster, and what follows.

A loss of power may take what the disk got since the last moment at which everything on it was synced: entries at the
end of a topic's log, and acknowledgements, seeks and merged progress that were confirmed since then. A process that is
killed loses nothing. Everything else is checked as in any other world; of the entries that are gone:

* they are the last ones of their topic, and their positions hold no other entry later;
* nobody has to get them from the cluster that published them; clusters that have them keep them, and there they count
  as acknowledged only if somebody acknowledged them;
* the cluster gets those of other clusters again, as far as their origins still have them.

Two more checks are weaker. What a cluster told others before it lost power is not held against it, because a marker
may arrive later. A seek that is lost may be followed by another one in the same epoch: acknowledgements of both count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.referees.model import Promise

if TYPE_CHECKING:
    from magnetar.sim.referees.model import Entry, Model
    from magnetar.sim.site import Replica


class Unsynced:
    """One topic: what was synced in each cluster, and which losses that leaves possible."""

    def __init__(self, model: Model, *, sync: bool) -> None:
        """Nothing was written yet; with ``sync`` nothing that was reported may be lost."""
        self._model = model
        self._sync = sync
        self._safe: dict[str, Position] = {}
        """By cluster, the newest entry that is on the disk for good."""
        self._promises: dict[tuple[str, str], Promise] = {}
        """By cluster and subscription, what was confirmed and is on the disk for good."""
        self._forgetful: set[str] = set()
        """Clusters that have lost power."""
        self._unseen: set[str] = set()
        """Those whose log was not looked at since."""

    def synced(self, cluster: str) -> None:
        """Note that everything that the model knows of a cluster is on its disk."""
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
        """Whether a cluster still has all that it ever told others."""
        return cluster not in self._forgetful

    def power_lost(self, cluster: str) -> None:
        """Take back what a cluster confirmed since everything was synced."""
        if self._sync:
            return
        self._forgetful.add(cluster)
        self._unseen.add(cluster)
        for key in [each for each in self._model.promises if each[0] == cluster]:
            kept = self._promises.get(key, Promise())
            self._model.promises[key] = Promise(kept.epoch, dict(kept.acknowledged))

    def accept(self, replica: Replica, known: list[tuple[Position, Entry]], found: list[tuple[Position, Entry]]) -> int:
        """Take out of the model what a loss of power may have taken; how many of ``known`` are left.

        ``known`` and ``found`` are a cluster's log before and after. Nothing is taken out if anything is wrong.
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
