"""``magnetar metadata sync``: brings the metadata of another cluster, or shows what they would change."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError
from magnetar.cli.metadata_diff import admin_of
from magnetar.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator


def sync(
    session: Session,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The other cluster: a profile or an admin URL.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change here.")] = False,
) -> None:
    """Let another cluster publish all its metadata, which completes those here.

    With --dry-run, the metadata of the other cluster are compared with the edits and the rules of this one, and the
    changes that their events would make here are shown.
    """
    with admin_of(cluster) as other:
        if dry_run:
            found = list(_changes(session.client, other))
            session.rows(found)
            if not found:
                session.note("nothing would change")
        else:
            other.metadata_sync.snapshot()
            session.note(f"{cluster} published a snapshot, which arrives through the event topic")


def _changes(client: AdminClient, other: AdminClient) -> Iterator[dict[str, Any]]:
    """Yield the changes that the snapshot of ``other`` would make; an event that would be refused is a row, too."""
    for event in other.metadata_sync.events():
        names = {"resourceType": event["resourceType"], "resource": event["resourceName"]}
        nothing = {"field": "", "here": None, "after": None, "refused": ""}
        try:
            changes = client.metadata_sync.preview(event)
        except AdminError as error:
            if error.status is not HTTPStatus.BAD_REQUEST:
                raise
            yield names | nothing | {"refused": str(error)}
            continue
        for each in changes:
            yield names | nothing | each
