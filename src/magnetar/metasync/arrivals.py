"""The time of the newest event of each cluster, which survives a restart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.metadata.store import Put
from magnetar.metasync.places import ARRIVALS

if TYPE_CHECKING:
    from magnetar.metadata.store import MetadataStore
    from magnetar.metasync.events import MetadataChangeEvent

CLUSTERS_MAX = 1_000
"""Maximum number of clusters. Beyond it, the one with the oldest event is forgotten."""

STORED_EVERY_MS = 10_000
"""Minimum milliseconds between two stored times of a cluster. After a restart its time is at most this much older."""


class Arrivals:
    """The times, in memory and in a metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        """Continue with the times in ``store``."""
        stored = store.get(ARRIVALS)
        self._stored_ms: dict[str, int] = {} if stored is None else json.loads(stored.value)
        self.newest_ms = dict(self._stored_ms)
        """By cluster, the time of its newest event, in milliseconds since the epoch."""

    def note(self, event: MetadataChangeEvent) -> list[Put]:
        """Note an event; return the write that makes its time durable, if one is due."""
        cluster, time_ms = event.source_cluster, event.update_time_ms
        if time_ms <= self.newest_ms.get(cluster, -1):
            return []
        self.newest_ms[cluster] = time_ms
        if len(self.newest_ms) > CLUSTERS_MAX:
            del self.newest_ms[min(self.newest_ms, key=self.newest_ms.__getitem__)]
        if cluster in self._stored_ms and time_ms - self._stored_ms[cluster] < STORED_EVERY_MS:
            return []
        self._stored_ms = dict(self.newest_ms)
        return [Put(ARRIVALS, json.dumps(self.newest_ms).encode())]
