"""``magnetar namespaces``: where topics live, and their policies."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.output import say
from magnetar.cli.policies import add_verbs
from magnetar.cli.session import Namespace, Session, command, names

app = typer.Typer(help="Where topics live, and their policies.", no_args_is_help=True)

Clusters = Annotated[
    str, typer.Option("--clusters", "-c", help="The clusters to replicate between, with commas between.")
]


@command(app, "list")
def list_namespaces(session: Session, tenant: Annotated[str, typer.Argument(help="The tenant's name.")]) -> None:
    """List a tenant's namespaces."""
    session.names(session.client.namespaces.of_tenant(tenant))


@command(app, "policies")
def policies(session: Session, namespace: Namespace) -> None:
    """Show all policies."""
    session.fields(session.client.namespaces.policies(namespace))


@command(app, "create")
def create(
    session: Session,
    namespace: Namespace,
    clusters: Clusters = "",
    bundles: Annotated[int, typer.Option("--bundles", "-b", min=0, help="Bundles; 0 is the cluster's default.")] = 0,
) -> None:
    """Create a namespace; without --clusters it lives in the cluster asked."""
    session.client.namespaces.create(namespace, names(clusters), bundles)
    say(f"created namespace {namespace}")


@command(app, "delete")
def delete(session: Session, namespace: Namespace) -> None:
    """Delete a namespace that has no topics."""
    session.client.namespaces.delete(namespace)
    say(f"deleted namespace {namespace}")


@command(app, "get-clusters")
def get_clusters(session: Session, namespace: Namespace) -> None:
    """List the clusters that topics are replicated between."""
    session.names(session.client.namespaces.clusters(namespace))


@command(app, "set-clusters")
def set_clusters(session: Session, namespace: Namespace, clusters: Clusters) -> None:
    """Replicate topics between clusters; a cluster that is left out loses its copy."""
    session.client.namespaces.set_clusters(namespace, names(clusters))
    say(f"{namespace} lives in {clusters}")


add_verbs(app, Namespace)
