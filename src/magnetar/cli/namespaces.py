"""``magnetar namespaces``: namespaces and their policies."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli import properties
from magnetar.cli.bundles import add_bundle_verbs
from magnetar.cli.consent import Force
from magnetar.cli.global_options import noun
from magnetar.cli.permissions import add_permission_verbs
from magnetar.cli.policies import Enabled, add_verbs
from magnetar.cli.session import Namespace, Session, change, command, names
from magnetar.cli.stranding import stranded_in, synchronized_with

app = noun("Namespaces and their policies.")

Clusters = Annotated[
    str, typer.Option("--clusters", "-c", help="Clusters that replicate the namespace, separated by commas.")
]


@command(app, "list")
def list_namespaces(session: Session, tenant: Annotated[str, typer.Argument(help="The tenant's name.")]) -> None:
    """List the namespaces of a tenant."""
    session.names(session.client.namespaces.of_tenant(tenant))


@command(app, "policies")
def policies(session: Session, namespace: Namespace) -> None:
    """Show all policies of a namespace."""
    session.fields(session.client.namespaces.policies(namespace))


@change(app, "create")
def create(
    session: Session,
    namespace: Namespace,
    clusters: Clusters = "",
    bundles: Annotated[int, typer.Option("--bundles", "-b", min=0, help="Bundles; 0: the cluster's default.")] = 0,
) -> None:
    """Create a namespace; without --clusters it belongs to this cluster only."""
    session.client.namespaces.create(namespace, names(clusters), bundles)
    session.created("namespace", namespace, {"clusters": session.client.namespaces.clusters(namespace)})


@change(app, "delete")
def delete(session: Session, namespace: Namespace, force: Force = False) -> None:
    """Delete a namespace that has no topics."""
    before = session.client.namespaces.policies(namespace)
    if not force:
        count = len(session.client.topics.of_namespace(namespace))
        effects = ["its policies are deleted", f"it has {count} topics; it must have none"]
        effects += stranded_in(session.client, synchronized_with(session.client), [namespace])
        session.require_consent(f"delete namespace {namespace}", effects)
    session.client.namespaces.delete(namespace)
    session.deleted("namespace", namespace, before)


@command(app, "get-clusters")
def get_clusters(session: Session, namespace: Namespace) -> None:
    """List the clusters that replicate a namespace."""
    session.names(session.client.namespaces.clusters(namespace))


@change(app, "set-clusters")
def set_clusters(session: Session, namespace: Namespace, clusters: Clusters, force: Force = False) -> None:
    """Set the clusters that replicate a namespace; a cluster that is removed receives no further messages."""
    before, wanted = session.client.namespaces.clusters(namespace), names(clusters)
    removed = [each for each in before if each not in wanted]
    if removed and not force:
        effects = [f"{each} receives no further messages; Apache Pulsar deletes its copy" for each in removed]
        effects += stranded_in(session.client, removed, [namespace])
        session.require_consent(f"remove {', '.join(removed)} from the clusters of {namespace}", effects)
    session.client.namespaces.set_clusters(namespace, wanted)
    session.changed(namespace, "clusters", before, session.client.namespaces.clusters(namespace))


@command(app, "get-is-allow-auto-update-schema")
def get_is_allow_auto_update_schema(session: Session, namespace: Namespace) -> None:
    """Show whether producers and consumers may bring new schemas."""
    session.value(session.client.namespaces.auto_updates_schemas(namespace))


@change(app, "set-is-allow-auto-update-schema")
def set_is_allow_auto_update_schema(session: Session, namespace: Namespace, enabled: Enabled) -> None:
    """Allow or forbid producers and consumers to bring new schemas."""
    before = session.client.namespaces.auto_updates_schemas(namespace)
    session.client.namespaces.set_auto_update_of_schemas(namespace, allowed=enabled)
    after = session.client.namespaces.auto_updates_schemas(namespace)
    session.changed(namespace, "is-allow-auto-update-schema", before, after)


add_bundle_verbs(app)
properties.add_to_namespaces(app)
add_permission_verbs(app, Namespace)
add_verbs(app, Namespace)
