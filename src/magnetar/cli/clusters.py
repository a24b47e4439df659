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
UrlSecure = Annotated[str | None, typer.Option(help="Admin URL with TLS, https://host:port.")]
BrokerUrlSecure = Annotated[str | None, typer.Option(help="URL for clients with TLS, pulsar+ssl://host:port.")]
TlsEnable = Annotated[
    bool | None, typer.Option("--tls-enable/--tls-disable", help="Whether brokers connect to the cluster with TLS.")
]


@command(app, "list")
def list_clusters(session: Session) -> None:
    """List the registered clusters."""
    session.names(session.client.clusters.names())


@command(app, "get")
def get(session: Session, cluster: Cluster) -> None:
    """Show the URLs of a cluster."""
    session.fields(session.client.clusters.get(cluster))


@command(app, "create")
def create(
    session: Session,
    cluster: Cluster,
    url: Url = None,
    broker_url: BrokerUrl = None,
    *,
    url_secure: UrlSecure = None,
    broker_url_secure: BrokerUrlSecure = None,
    tls: TlsEnable = None,
) -> None:
    """Register a cluster."""
    session.client.clusters.create(cluster, _given(url, broker_url, url_secure, broker_url_secure, tls=tls))
    session.created("cluster", cluster, session.client.clusters.get(cluster))


@command(app, "update")
def update(
    session: Session,
    cluster: Cluster,
    url: Url = None,
    broker_url: BrokerUrl = None,
    *,
    url_secure: UrlSecure = None,
    broker_url_secure: BrokerUrlSecure = None,
    tls: TlsEnable = None,
) -> None:
    """Change the URLs of a cluster; omitted ones are not changed."""
    before = session.client.clusters.get(cluster)
    session.client.clusters.update(cluster, before | _given(url, broker_url, url_secure, broker_url_secure, tls=tls))
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


def _given(
    url: str | None, broker_url: str | None, url_secure: str | None, broker_url_secure: str | None, *, tls: bool | None
) -> dict[str, str | bool]:
    given = {
        "serviceUrl": url,
        "brokerServiceUrl": broker_url,
        "serviceUrlTls": url_secure,
        "brokerServiceUrlTls": broker_url_secure,
        "brokerClientTlsEnabled": tls,
    }
    return {field: value for field, value in given.items() if value is not None}
