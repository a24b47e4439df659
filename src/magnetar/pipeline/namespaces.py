"""Which namespaces a link carries, asked of the source's admin port in a thread so that a dead port stalls nobody."""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, MagnetarError
from magnetar.pipeline import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import NamespaceName


POLLS_PER_POLICY = 2
"""Polls between two questions for the clusters of a namespace that is known already."""


class NamespaceWatch:
    """Polls one cluster for the namespaces that are replicated to a target."""

    def __init__(
        self,
        admin_url: str,
        clusters: frozenset[str],
        on_change: Callable[[tuple[NamespaceName, ...] | None, str], None],
    ) -> None:
        """Call ``on_change``, in the watch's thread, with the namespaces replicated between all of ``clusters``.

        It is called with None, and the reason, when they are not known any more: what was known still holds.
        """
        self._admin_url = admin_url
        self._clusters = clusters
        self._on_change = on_change
        self._known: dict[NamespaceName, frozenset[str]] = {}
        self._polls = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"namespaces of {admin_url}", daemon=True)

    def start(self) -> None:
        """Poll from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Poll no more; a request under way is left to its timeout."""
        self._stopped.set()

    def _run(self) -> None:
        told: tuple[tuple[NamespaceName, ...] | None, str] = (None, "")
        with AdminClient(self._admin_url, timeout_s=limits.ADMIN_TIMEOUT_SECONDS) as client:
            while not self._stopped.is_set():
                answer = self._ask(client)
                if answer != told:
                    told = answer
                    self._on_change(*answer)
                self._stopped.wait(limits.NAMESPACES_POLL_SECONDS)

    def _ask(self, client: AdminClient) -> tuple[tuple[NamespaceName, ...] | None, str]:
        """Ask which namespaces there are, and for the clusters of those that are new; of all of them now and then."""
        self._known = self._known if self._polls % POLLS_PER_POLICY else {}
        self._polls += 1
        try:
            names = namespaces(client)
            known = self._known
            self._known = {name: known.get(name) or replication_clusters(client, name) for name in names}
        except MagnetarError as error:
            return None, str(error)
        return tuple(name for name in names if self._clusters <= self._known[name]), ""


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
