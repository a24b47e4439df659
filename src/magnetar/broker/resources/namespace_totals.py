"""Counters of namespaces, which do not go back when topics are unloaded or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName
    from magnetar.metadata.resources import Namespaces


class NamespaceTotals:
    """Numbers of events in existing namespaces since the start of the broker. Used on the event loop's thread.

    Prometheus takes a counter that goes back for one that began again at 0. So the sum of the counters of loaded topics
    would make false peaks of rates.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        """Begin without counts; those of a namespace end with it."""
        self.deduplicated: dict[NamespaceName, int] = {}
        """Duplicates that were not stored."""
        self.handovers: dict[tuple[NamespaceName, str], int] = {}
        """Hand-overs of links, by remote cluster."""
        self._namespaces = namespaces
        namespaces.watch(self._changed)

    def add_deduplicated(self, namespace: NamespaceName, count: int) -> None:
        """Count duplicates; 0 lets the counter begin."""
        if self._namespaces.exists(namespace):
            self.deduplicated[namespace] = self.deduplicated.get(namespace, 0) + count

    def add_handovers(self, namespace: NamespaceName, remote: str, count: int) -> None:
        """Count hand-overs of links to the cluster ``remote``; 0 lets the counter begin."""
        if self._namespaces.exists(namespace):
            self.handovers[namespace, remote] = self.handovers.get((namespace, remote), 0) + count

    def _changed(self, namespace: NamespaceName) -> None:
        if not self._namespaces.exists(namespace):
            self.deduplicated.pop(namespace, None)
            for key in [key for key in self.handovers if key[0] == namespace]:
                del self.handovers[key]
