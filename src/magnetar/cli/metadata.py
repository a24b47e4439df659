"""``magnetar metadata``: the metadata synchronizer."""

from __future__ import annotations

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


@command(app, "refused")
def refused(session: Session) -> None:
    """List the newest events that could not be applied, with the reasons."""
    session.rows(session.client.metadata_sync.refused())


@command(app, "snapshot")
def snapshot(session: Session) -> None:
    """Publish all metadata of the cluster, which completes those of the other clusters."""
    session.client.metadata_sync.snapshot()
    session.note("published a snapshot")
