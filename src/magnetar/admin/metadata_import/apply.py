"""Makes the changes of a plan in the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.admin.metadata_import.changes import Change


class Refusal(NamedTuple):
    """A change that the target refused."""

    change: Change
    error: AdminError


def apply(
    client: AdminClient, changes: Sequence[Change], report: Callable[[int, int], None] = lambda *_: None
) -> list[Refusal]:
    """Make the changes in their order; return those that were refused. Raises ClusterUnreachableError.

    A refused change is tried again at the end, since the order of some pairs depends on their values: a backlog quota
    must not exceed the retention. ``report`` is told how many changes were made, and the number of all.
    """
    refused = []
    for done, each in enumerate(changes, 1):
        refusal = _try(client, each)
        if refusal is not None:
            refused.append(refusal)
        report(done, len(changes))
    return [refusal for each in refused if (refusal := _try(client, each.change)) is not None]


def _try(client: AdminClient, change: Change) -> Refusal | None:
    try:
        change.send(client)
    except AdminError as error:
        return Refusal(change, error)
    return None
