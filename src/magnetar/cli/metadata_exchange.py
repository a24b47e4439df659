"""``magnetar metadata sync``: brings the metadata of another cluster, or shows what they would change."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.cli.hints import failure_elsewhere
from magnetar.cli.metadata_diff import admin_of
from magnetar.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
        try:
            if not dry_run:
                other.metadata_sync.snapshot()
                session.note(f"{cluster} published a snapshot, which arrives through the event topic")
                return
            events = other.metadata_sync.events()
        except (AdminError, ClusterUnreachableError) as error:
            hint = "CLUSTER is a profile or an admin URL; magnetar profiles list shows the profiles"
            raise failure_elsewhere(error, other.url, "the other cluster", hint) from error
    found = list(_changes(session.client, events))
    session.rows(found)
    if not found:
        session.note("nothing would change")


def _changes(client: AdminClient, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the changes that the events of a snapshot would make; one that would be refused is a row, too."""
    for event in events:
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
