"""``magnetar metadata``: the metadata synchronizer."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.global_options import noun
from magnetar.cli.metadata_diff import diff
from magnetar.cli.metadata_import import import_metadata
from magnetar.cli.session import Session, command

app = noun("The metadata that the clusters share (PIP-136).")
app.command("diff")(diff)
command(app, "import")(import_metadata)


@command(app, "status")
def status(session: Session) -> None:
    """Show the state of the synchronizer: whether it is connected, and the age of the newest event of each cluster."""
    session.fields(session.client.metadata_sync.status())


@command(app, "local")
def local(session: Session) -> None:
    """List the fields and resources that differ here because of a change with --local, and their common values."""
    found = session.client.metadata_sync.local()
    session.rows({**each, "here": each.get("here"), "common": each.get("common")} for each in found)


@command(app, "remove-local")
def remove_local(
    session: Session,
    resource: Annotated[str, typer.Argument(help="Tenant, tenant/namespace, or full name of a topic.")],
    field: Annotated[
        str, typer.Option("--field", help="One field as in `metadata local`, or all keys of it; default: all fields.")
    ] = "",
) -> None:
    """Give what is local in a resource the values of the other clusters; publish a resource that they do not know."""
    session.client.metadata_sync.remove_local(resource, field)
    session.note(f"{field or 'all fields'} of {resource}: as in the other clusters")


@command(app, "unknown")
def unknown(session: Session) -> None:
    """List the fields that the version of the cluster does not know. It keeps them without an effect."""
    found = session.client.metadata_sync.unknown()
    session.rows({**each, "setBy": each.get("setBy"), "setAt": each.get("setAt")} for each in found)


@command(app, "refused")
def refused(session: Session) -> None:
    """List the newest events that could not be applied, with the reasons."""
    session.rows(session.client.metadata_sync.refused())


@command(app, "snapshot")
def snapshot(session: Session) -> None:
    """Publish all metadata of the cluster, which completes those of the other clusters."""
    session.client.metadata_sync.snapshot()
    session.note("published a snapshot")
