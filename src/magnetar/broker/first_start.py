"""The first start of a cluster: like Pulsar's standalone, it accepts publishes without configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import NamespaceName
from magnetar.metadata.policies import DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES, BundlesData, Policies, TenantInfo

if TYPE_CHECKING:
    from magnetar.metadata.policies import ClusterData
    from magnetar.metadata.resources import Resources

TENANT = "public"
NAMESPACE = NamespaceName(TENANT, "default")


async def register_cluster(resources: Resources, cluster: str, data: ClusterData) -> bool:
    """Register ``cluster`` and create ``public/default`` unless a cluster is registered; return whether it did.

    The cluster is registered last, so the next start completes an interrupted one. Later starts change nothing: an
    operator may have deleted the namespace, or changed the addresses.
    """
    if resources.clusters.names():
        return False
    if not resources.tenants.exists(TENANT):
        await resources.tenants.create(TENANT, TenantInfo(allowedClusters=[cluster]))
    if not resources.namespaces.exists(NAMESPACE):
        bundles = BundlesData.of(DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES)
        await resources.namespaces.create(NAMESPACE, Policies(replication_clusters=[cluster], bundles=bundles))
    await resources.clusters.create(cluster, data)
    return True
