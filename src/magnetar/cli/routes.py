"""``magnetar routes``: the clusters that serve the clients of tenants, namespaces and topics."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.consent import Force
from magnetar.cli.global_options import noun
from magnetar.cli.session import Session, command

app = noun("The clusters that serve the clients of tenants, namespaces and topics.")

Scope = Annotated[str, typer.Argument(help="Tenant, tenant/namespace, or full name of a topic.")]
Epoch = Annotated[
    int | None,
    typer.Option("--epoch", help="Change it only if this is the epoch, also of a deleted route; 0: if there was none."),
]


@command(app, "list")
def list_routes(session: Session) -> None:
    """List the routes. Of several that include a topic, the most specific one counts."""
    session.rows(session.client.routes.all())


@command(app, "get")
def get(session: Session, scope: Scope) -> None:
    """Show the route of a tenant, namespace or topic: its cluster, and the epoch, which grows with each change."""
    session.fields(session.client.routes.get(scope))


@command(app, "set")
def set_route(
    session: Session,
    scope: Scope,
    cluster: Annotated[str, typer.Argument(help="The cluster to which clients are sent.")],
    epoch: Epoch = None,
) -> None:
    """Send the clients of a tenant, namespace or topic to a cluster, those that are connected elsewhere as well."""
    before = next((each for each in session.client.routes.all() if each["scope"] == scope), None)
    session.changed(scope, "route", before, session.client.routes.set(scope, cluster, epoch=epoch))


@command(app, "delete")
def delete(session: Session, scope: Scope, epoch: Epoch = None, force: Force = False) -> None:
    """Delete a route, so that the one of the namespace or tenant counts, or else clients stay where they ask."""
    before = session.client.routes.get(scope)
    if not force:
        effects = ["a less specific route counts then", "without one, each cluster serves the clients that ask it"]
        session.require_consent(f"delete the route of {scope} to {before['cluster']}", effects)
    session.client.routes.delete(scope, epoch=epoch)
    session.deleted("route", scope, before)
