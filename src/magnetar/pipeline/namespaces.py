"""Which namespaces a link carries, asked of admin ports in a thread so that a dead port stalls nobody."""

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
"""Polls between two questions for the clusters of a namespace that is known already."""


class Policies:
    """Between which clusters each namespace is replicated, as one cluster has it."""

    def __init__(self, client: AdminClient, polls_per_policy: int = POLLS_PER_POLICY) -> None:
        """Ask ``client``, for each namespace's clusters every so many polls; `close` ends its connection."""
        self._client = client
        self._polls_per_policy = polls_per_policy
        self.is_magnetar: bool | None = None
        """Whether the cluster is one of Magnetar's; None while it has not answered."""
        self._known: dict[NamespaceName, frozenset[str]] = {}
        self._polls = 0

    def poll(self) -> str:
        """Ask which namespaces there are, and for the clusters of those that are new; of all of them now and then.

        Returns the reason when they are not known any more: what was known still holds.
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
        """The namespaces that are replicated between all of ``clusters``, as far as is known."""
        return frozenset(name for name, between in self._known.items() if between.issuperset(clusters))

    def replicated(self) -> list[NamespaceName]:
        """The namespaces that are not in one cluster alone, sorted, as far as is known."""
        return [name for name, between in self._known.items() if len(between) > 1]

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()


class NamespaceWatch:
    """Polls for the namespaces that a source replicates to a target.

    A Magnetar source says so itself. A foreign source whose policies name the target replicates to it by itself; what
    is left to the pipeline is what any Magnetar's policies say, and what ``options.namespaces`` adds.
    """

    def __init__(
        self,
        source: ClusterAddress,
        target: str,
        options: ReplicationOptions,
        on_change: Callable[[tuple[NamespaceName, ...] | None, str], None],
        client_of: Callable[[str], AdminClient] = admin_client,
    ) -> None:
        """Call ``on_change``, in the watch's thread, with the namespaces and the reason why they may be outdated.

        Instead of the namespaces it is called with None when they are not known any more: what was known still holds.
        """
        self._source = source
        self._target = target
        self._on_change = on_change
        self._own = Policies(client_of(source.admin_url))
        self._client_of = client_of
        self._other_urls = [cluster.admin_url for cluster in options.clusters if cluster != source]
        self._others: list[Policies] = []
        """Made once the source turns out to be foreign: a client takes some 20 ms to make."""
        self._always = frozenset(map(NamespaceName.parse, options.namespaces))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"namespaces of {source.name}", daemon=True)

    def start(self) -> None:
        """Poll from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Poll no more; a request under way is left to its timeout."""
        self._stopped.set()

    def ask(self) -> tuple[tuple[NamespaceName, ...] | None, str]:
        """Poll now; returns what ``on_change`` is called with."""
        reason = self._own.poll()
        if reason:
            return None, reason
        own = self._own.between(self._source.name, self._target)
        if self._own.is_magnetar:
            return tuple(sorted(own)), ""
        if not self._others:
            self._others = [Policies(self._client_of(url)) for url in self._other_urls]
        reasons = [policies.poll() for policies in self._others]
        wanted = self._always.union(
            *(each.between(self._source.name, self._target) for each in self._others if each.is_magnetar)
        )
        return tuple(sorted(wanted - own)), "; ".join(filter(None, reasons))

    def _run(self) -> None:
        told: tuple[tuple[NamespaceName, ...] | None, str] = (None, "")
        while not self._stopped.is_set():
            answer = self.ask()
            if answer != told:
                told = answer
                self._on_change(*answer)
            self._stopped.wait(limits.NAMESPACES_POLL_SECONDS)
        for policies in (self._own, *self._others):
            policies.close()


def namespaces(client: AdminClient) -> list[NamespaceName]:
    """Ask a cluster for all its namespaces, sorted."""
    return sorted(name for tenant in client.tenants.names() for name in client.namespaces.of_tenant(tenant))


def replication_clusters(client: AdminClient, namespace: NamespaceName) -> frozenset[str]:
    """Ask between which clusters a namespace is replicated; none when it is gone."""
    try:
        return frozenset(client.namespaces.clusters(namespace))
    except AdminError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return frozenset()
        raise
