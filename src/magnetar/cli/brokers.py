"""``magnetar brokers``: the broker behind the admin URL."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.global_options import noun
from magnetar.cli.session import Session, command

app = noun("The broker behind the admin URL.")


@command(app, "list")
def list_brokers(session: Session, cluster: Annotated[str, typer.Argument(help="The cluster's name.")]) -> None:
    """List the brokers of a cluster."""
    session.names(session.client.brokers.of_cluster(cluster))


@command(app, "leader-broker")
def leader_broker(session: Session) -> None:
    """Show the leader broker."""
    session.fields(session.client.brokers.leader())


@command(app, "healthcheck")
def healthcheck(session: Session) -> None:
    """Succeed if the broker can store and serve messages.

    It also prints the risks that the broker has found at its start, for example ports without authentication.
    """
    risks = session.client.brokers.check_health()
    session.note("ok")
    for risk in risks:
        session.note(f"warning: {risk}")


@command(app, "version")
def version(session: Session) -> None:
    """Show the broker's release."""
    session.names([session.client.brokers.version()])


@command(app, "get-runtime-config")
def get_runtime_config(session: Session) -> None:
    """Show all settings in effect."""
    session.fields(session.client.brokers.runtime_configuration())


@command(app, "raise-ledger-ids")
def raise_ledger_ids(session: Session) -> None:
    """Give new ledgers ids above those that other clusters have given until now.

    Before topics move to this cluster, so that message ids of the old cluster can be told from those given here.
    """
    lowest = session.client.brokers.raise_ledger_ids()["lowest"]
    session.done(f"new ledgers have ids from {lowest} on", session.target, "lowest ledger id", None, lowest)
