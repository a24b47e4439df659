"""``magnetar tenants``: tenants, their clusters and their roles."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.consent import Force
from magnetar.cli.global_options import noun
from magnetar.cli.session import Session, change, command, names
from magnetar.cli.stranding import namespaces_in, stranded_in, synchronized_with

app = noun("Tenants, their clusters and their roles.")

Tenant = Annotated[str, typer.Argument(help="The tenant's name.")]
AllowedClusters = Annotated[
    str, typer.Option("--allowed-clusters", "-c", help="Clusters that its namespaces may use, separated by commas.")
]
AdminRoles = Annotated[str, typer.Option("--admin-roles", "-r", help="Roles that administer it, separated by commas.")]


@command(app, "list")
def list_tenants(session: Session) -> None:
    """List the tenants."""
    session.names(session.client.tenants.names())


@command(app, "get")
def get(session: Session, tenant: Tenant) -> None:
    """Show a tenant's clusters and roles."""
    session.fields(session.client.tenants.get(tenant))


@change(app, "create")
def create(
    session: Session, tenant: Tenant, allowed_clusters: AllowedClusters = "", admin_roles: AdminRoles = ""
) -> None:
    """Create a tenant; without --allowed-clusters its namespaces may use every registered cluster."""
    clusters = names(allowed_clusters) or session.client.clusters.names()
    session.client.tenants.create(tenant, clusters, names(admin_roles))
    session.created("tenant", tenant, session.client.tenants.get(tenant))


@change(app, "update")
def update(
    session: Session, tenant: Tenant, allowed_clusters: AllowedClusters = "", admin_roles: AdminRoles = ""
) -> None:
    """Change the clusters or roles of a tenant; omitted ones are not changed."""
    before = session.client.tenants.get(tenant)
    clusters = names(allowed_clusters) or before["allowedClusters"]
    session.client.tenants.update(tenant, clusters, names(admin_roles) or before["adminRoles"])
    session.changed(tenant, "tenant", before, session.client.tenants.get(tenant))


@change(app, "delete")
def delete(session: Session, tenant: Tenant, force: Force = False) -> None:
    """Delete a tenant that has no namespaces."""
    before = session.client.tenants.get(tenant)
    if not force:
        count = len(session.client.namespaces.of_tenant(tenant))
        others = synchronized_with(session.client)
        elsewhere = namespaces_in(session.client, others, tenant)
        effects = [f"it has {count} namespaces; it must have none"]
        effects += [f"namespace {each} of another cluster has no tenant any more" for each in elsewhere]
        effects += stranded_in(session.client, others if elsewhere else [], elsewhere)
        session.require_consent(f"delete tenant {tenant}", effects)
    session.client.tenants.delete(tenant)
    session.deleted("tenant", tenant, before)
