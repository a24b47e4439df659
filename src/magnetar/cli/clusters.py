"""``magnetar clusters``: the clusters that are registered in a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.consent import Force
from magnetar.cli.global_options import noun
from magnetar.cli.session import Session, command

app = noun("The clusters that are registered in a cluster, including itself.")

Cluster = Annotated[str, typer.Argument(help="The cluster's name.")]
Url = Annotated[str | None, typer.Option(help="Admin URL of the cluster, http://host:port.")]
BrokerUrl = Annotated[str | None, typer.Option(help="URL for clients, pulsar://host:port.")]


@command(app, "list")
def list_clusters(session: Session) -> None:
    """List the registered clusters."""
    session.names(session.client.clusters.names())


@command(app, "get")
def get(session: Session, cluster: Cluster) -> None:
    """Show the URLs of a cluster."""
    session.fields(session.client.clusters.get(cluster))


@command(app, "create")
def create(session: Session, cluster: Cluster, url: Url = None, broker_url: BrokerUrl = None) -> None:
    """Register a cluster."""
    session.client.clusters.create(cluster, _given(url, broker_url))
    session.created("cluster", cluster, session.client.clusters.get(cluster))


@command(app, "update")
def update(session: Session, cluster: Cluster, url: Url = None, broker_url: BrokerUrl = None) -> None:
    """Change the URLs of a cluster; omitted ones are not changed."""
    before = session.client.clusters.get(cluster)
    session.client.clusters.update(cluster, before | _given(url, broker_url))
    session.changed(cluster, "cluster", before, session.client.clusters.get(cluster))


@command(app, "delete")
def delete(session: Session, cluster: Cluster, force: Force = False) -> None:
    """Delete the registration of a cluster; refused while a namespace replicates to it."""
    before = session.client.clusters.get(cluster)
    if not force:
        urls = (before.get("serviceUrl"), before.get("brokerServiceUrl"))
        effects = ["nothing can replicate to it any more", f"its URLs are {', '.join(filter(None, urls)) or 'not set'}"]
        session.require_consent(f"delete the registration of cluster {cluster}", effects)
    session.client.clusters.delete(cluster)
    session.deleted("cluster", cluster, before)


def _given(url: str | None, broker_url: str | None) -> dict[str, str]:
    urls = {"serviceUrl": url, "brokerServiceUrl": broker_url}
    return {field: value for field, value in urls.items() if value is not None}
