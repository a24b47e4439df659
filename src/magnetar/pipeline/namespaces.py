"""The namespaces of a link whose source does not report them, polled from admin ports.

Brokers of Magnetar report them (`magnetar.pipeline.connections.topics`), but for earlier versions. Polls run in a
thread, so that an unresponsive port blocks nothing.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.base.errors import AdminError, MagnetarError
from magnetar.base.names import NamespaceName
from magnetar.pipeline import limits
from magnetar.pipeline.watch import admin_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.admin.client import AdminClient
    from magnetar.pipeline.options import ClusterAddress, ReplicationOptions

POLLS_PER_POLICY = 2
"""Number of polls between two requests for the clusters of a known namespace."""


class Policies:
    """The replication clusters of each namespace, according to one cluster."""

    def __init__(self, client: AdminClient, polls_per_policy: int = POLLS_PER_POLICY) -> None:
        """Poll ``client``; update known namespaces every ``polls_per_policy`` polls. `close` closes the client."""
        self._client = client
        self._polls_per_policy = polls_per_policy
        self.is_magnetar: bool | None = None
        """Whether the cluster is Magnetar; None until it has answered."""
        self._known: dict[NamespaceName, frozenset[str]] = {}
        self._polls = 0

    def poll(self) -> str:
        """Poll the namespaces, and the replication clusters of new ones; of all of them from time to time.

        Returns the reason for a failure; the earlier answers then remain valid.
        """
        fresh = self._polls % self._polls_per_policy == 0
        try:
            if self.is_magnetar is None:
                self.is_magnetar = self._client.brokers.is_magnetar()
            self._known = {
                name: (not fresh and self._known.get(name)) or replication_clusters(self._client, name)
                for name in namespaces(self._client)
            }
        except MagnetarError as error:
            return str(error)
        self._polls += 1
        return ""

    def between(self, *clusters: str) -> frozenset[NamespaceName]:
        """Return the known namespaces that are replicated between all of ``clusters``."""
        return frozenset(name for name, between in self._known.items() if between.issuperset(clusters))

    def replicated(self) -> list[NamespaceName]:
        """Return the known namespaces with more than one cluster, sorted."""
        return [name for name, between in self._known.items() if len(between) > 1]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class NamespaceWatch:
    """Polls the namespaces that a source replicates to a target.

    A Magnetar source has them in its policies. A foreign source replicates by itself if its policies name the target.
    So the pipeline carries the namespaces in the policies of any Magnetar cluster, and those in ``options.namespaces``.
    """

    def __init__(
        self,
        source: ClusterAddress,
        target: str,
        options: ReplicationOptions,
        on_change: Callable[[tuple[NamespaceName, ...] | None, str], None],
        client_of: Callable[[ClusterAddress], AdminClient] = admin_client,
    ) -> None:
        """Call ``on_change``, in the watch's thread, with the namespaces and the reason if they may be outdated.

        None instead of the namespaces means that they are unknown, and that earlier ones remain valid.
        """
        self._source = source
        self._target = target
        self._on_change = on_change
        self._own = Policies(client_of(source))
        self._client_of = client_of
        self._other_clusters = [cluster for cluster in options.clusters if cluster != source]
        self._others: list[Policies] = []
        """Created only for a foreign source, because a client takes some 20 ms."""
        self._always = frozenset(map(NamespaceName.parse, options.namespaces))
        self._stopped = threading.Event()
        self._telling = threading.Lock()
        """Held while ``on_change`` runs, so that it never runs after `stop`."""
        self._thread = threading.Thread(target=self._run, name=f"namespaces of {source.name}", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling. ``on_change`` is not called any more; a pending request ends with its time-out."""
        with self._telling:
            self._stopped.set()

    def ask(self) -> tuple[tuple[NamespaceName, ...] | None, str]:
        """Poll once; return the arguments of ``on_change``."""
        reason = self._own.poll()
        if reason:
            return None, reason
        own = self._own.between(self._source.name, self._target)
        if self._own.is_magnetar:
            return tuple(sorted(own)), ""
        if not self._others:
            self._others = [Policies(self._client_of(each)) for each in self._other_clusters]
        reasons = [policies.poll() for policies in self._others]
        wanted = self._always.union(
            *(each.between(self._source.name, self._target) for each in self._others if each.is_magnetar)
        )
        return tuple(sorted(wanted - own)), "; ".join(filter(None, reasons))

    def _run(self) -> None:
        told: tuple[tuple[NamespaceName, ...] | None, str] = (None, "")
        while not self._stopped.is_set():
            answer = self.ask()
            with self._telling:
                if answer != told and not self._stopped.is_set():
                    told = answer
                    self._on_change(*answer)
            self._stopped.wait(limits.NAMESPACES_POLL_SECONDS)
        for policies in (self._own, *self._others):
            policies.close()


def namespaces(client: AdminClient) -> list[NamespaceName]:
    """Read all namespaces of a cluster, sorted."""
    return sorted(name for tenant in client.tenants.names() for name in client.namespaces.of_tenant(tenant))


def replication_clusters(client: AdminClient, namespace: NamespaceName) -> frozenset[str]:
    """Read the replication clusters of a namespace; empty if it does not exist."""
    try:
        return frozenset(client.namespaces.clusters(namespace))
    except AdminError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return frozenset()
        raise
