"""Registration of the broker's own cluster, so that a client can publish at once, as with Pulsar's standalone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import NamespaceName
from magnetar.metadata.policies import DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES, BundlesData, Policies, TenantInfo

if TYPE_CHECKING:
    from magnetar.metadata.policies import ClusterData
    from magnetar.metadata.resources import Resources

TENANT = "public"
NAMESPACE = NamespaceName(TENANT, "default")


def check_name(resources: Resources, cluster: str) -> None:
    """Raise ConfigurationError if the data are those of another cluster.

    Positions and acknowledgements of the other clusters name the cluster of their origin. A broker with the name of
    another cluster would publish entries that the others have already, or take its own entries for replicated ones.
    """
    names = resources.own_addresses.names()
    if names and cluster not in names:
        message = (
            f"clusterName={cluster}: the data directory is that of cluster {' or '.join(names)}, and the name of a "
            f"cluster cannot be changed\nhint: set clusterName={names[0]}, or name another dataDirectory"
        )
        raise ConfigurationError(message)


async def register_cluster(resources: Resources, cluster: str, data: ClusterData) -> bool:
    """Register ``cluster`` and create ``public/default`` unless a cluster is registered; return whether it did.

    The cluster is registered last, so a start that was interrupted is completed by the next one. Later starts create
    nothing, because an operator may have deleted the namespace.
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


async def update_addresses(resources: Resources, cluster: str, data: ClusterData) -> bool:
    """Register the broker's present addresses if it registered the stored ones; return whether they changed.

    Addresses that an operator set stay, since clients may reach the broker through a proxy. The broker keeps a copy of
    the addresses that it registered; addresses that differ from the copy are an operator's.
    """
    registered, copy = resources.clusters.get(cluster), resources.own_addresses.get(cluster)
    is_changed = registered is not None and registered == copy and registered != data
    if is_changed:
        await resources.clusters.update(cluster, lambda _: data)
    if registered is not None and (is_changed or registered == data) and copy != data:
        # Behind the cluster's data: after a crash in between, the next start finds these equal to ``data``.
        own = resources.own_addresses
        await (own.create(cluster, data) if copy is None else own.update(cluster, lambda _: data))
    return is_changed
