"""Edits that lost against a concurrent edit of the same unit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from magnetar.metasync.records import Edit, Record


class Lost(NamedTuple):
    """An edit that lost."""

    unit: str
    edit: Edit
    winner: Edit
    """The edit that counts. It was made without knowledge of the other one."""


def lost_edits(known: Record, arrived: Record) -> list[Lost]:
    """Return the edits of ``known`` or ``arrived`` that lost against a concurrent one of the other record.

    Two edits are concurrent if the one that counts replaced an edit older than the other one: where it was made, the
    other one was not known. Edits with equal values do not compete. An edit that was made concurrently with a deletion
    is not among them, because a deletion does not tell which edits it replaced.
    """
    merged, found = known.merge(arrived), []
    for unit, edit in arrived.edits.items():
        present, winner = known.edits.get(unit), merged.edits.get(unit)
        if present is None or winner is None or present.timestamp == edit.timestamp or present.value == edit.value:
            continue
        loser = edit if winner.timestamp == present.timestamp else present
        if winner.replaced is None or winner.replaced < loser.timestamp:
            found.append(Lost(unit, loser, winner))
    return found
