"""``magnetar clusters``: the clusters that a cluster knows."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.output import say
from magnetar.cli.session import Session, command

app = typer.Typer(help="The clusters that a cluster knows, itself among them.", no_args_is_help=True)

Cluster = Annotated[str, typer.Argument(help="The cluster's name.")]
Url = Annotated[str | None, typer.Option(help="Its admin URL, http://host:port.")]
BrokerUrl = Annotated[str | None, typer.Option(help="Where its clients connect, pulsar://host:port.")]


@command(app, "list")
def list_clusters(session: Session) -> None:
    """List the clusters."""
    session.names(session.client.clusters.names())


@command(app, "get")
def get(session: Session, cluster: Cluster) -> None:
    """Show how a cluster is reached."""
    session.fields(session.client.clusters.get(cluster))


@command(app, "create")
def create(session: Session, cluster: Cluster, url: Url = None, broker_url: BrokerUrl = None) -> None:
    """Make a cluster known."""
    session.client.clusters.create(cluster, _given(url, broker_url))
    say(f"created cluster {cluster}")


@command(app, "update")
def update(session: Session, cluster: Cluster, url: Url = None, broker_url: BrokerUrl = None) -> None:
    """Change a cluster's URLs; those not given stay."""
    session.client.clusters.update(cluster, session.client.clusters.get(cluster) | _given(url, broker_url))
    say(f"updated cluster {cluster}")


@command(app, "delete")
def delete(session: Session, cluster: Cluster) -> None:
    """Forget a cluster that no namespace replicates to."""
    session.client.clusters.delete(cluster)
    say(f"deleted cluster {cluster}")


def _given(url: str | None, broker_url: str | None) -> dict[str, str]:
    urls = {"serviceUrl": url, "brokerServiceUrl": broker_url}
    return {field: value for field, value in urls.items() if value is not None}
