"""Registration of development clusters: each other's addresses, the tenant ``public``, ``public/default``."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.base.names import NamespaceName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.ops.layout import LocalCluster

HEALTH_TIMEOUT_SECONDS = 2.0
"""Timeout of one health check; a broker that is starting is checked again."""

TENANT = "public"
NAMESPACE = NamespaceName(TENANT, "default")


def is_healthy(cluster: LocalCluster) -> bool:
    """Return whether the broker of a cluster reports that it can store and serve messages."""
    with AdminClient(cluster.admin_url, credentials=cluster.credentials, timeout_s=HEALTH_TIMEOUT_SECONDS) as admin:
        try:
            admin.brokers.check_health()
        except (AdminError, ClusterUnreachableError):
            return False
    return True


def introduce(clusters: Sequence[LocalCluster]) -> None:
    """Register every cluster in every cluster, and create ``public/default`` in each, not replicated.

    A repeated call corrects addresses and adds clusters that the tenant may not use yet; it changes nothing else.
    """
    for cluster in clusters:
        with AdminClient(cluster.admin_url, credentials=cluster.credentials) as admin:
            _introduce_all_to(admin, clusters)
            _create_default_namespace(admin, cluster.name, [each.name for each in clusters])


def _introduce_all_to(admin: AdminClient, clusters: Sequence[LocalCluster]) -> None:
    for other in clusters:
        data = other.addresses
        if not _created(lambda: admin.clusters.create(other.name, data)):  # noqa: B023 - called at once
            admin.clusters.update(other.name, data)


def _create_default_namespace(admin: AdminClient, cluster: str, all_clusters: list[str]) -> None:
    if not _created(lambda: admin.tenants.create(TENANT, all_clusters)):
        tenant = admin.tenants.get(TENANT)
        missing = [name for name in all_clusters if name not in tenant["allowedClusters"]]
        if missing:
            admin.tenants.update(TENANT, [*tenant["allowedClusters"], *missing], tenant["adminRoles"])
    _created(lambda: admin.namespaces.create(NAMESPACE, [cluster]))


def _created(create: Callable[[], None]) -> bool:
    """Call ``create``; return False if the object already exists."""
    try:
        create()
    except AdminError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        return False
    return True
