"""``magnetar clusters``: the clusters that are registered in a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.global_options import noun
from magnetar.cli.output import say
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
    say(f"created cluster {cluster}")


@command(app, "update")
def update(session: Session, cluster: Cluster, url: Url = None, broker_url: BrokerUrl = None) -> None:
    """Change the URLs of a cluster; omitted ones are not changed."""
    session.client.clusters.update(cluster, session.client.clusters.get(cluster) | _given(url, broker_url))
    say(f"updated cluster {cluster}")


@command(app, "delete")
def delete(session: Session, cluster: Cluster) -> None:
    """Delete the registration of a cluster; refused while a namespace replicates to it."""
    session.client.clusters.delete(cluster)
    say(f"deleted cluster {cluster}")


def _given(url: str | None, broker_url: str | None) -> dict[str, str]:
    urls = {"serviceUrl": url, "brokerServiceUrl": broker_url}
    return {field: value for field, value in urls.items() if value is not None}
