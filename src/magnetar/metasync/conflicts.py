"""Edits that lost against a concurrent edit of the same unit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.metasync.records import Edit, Record
    from magnetar.metasync.timestamps import Timestamp


class Lost(NamedTuple):
    """An edit that lost."""

    unit: str
    edit: Edit
    winner: Timestamp
    """The edit or deletion that counts. It was made without knowledge of the other one."""


def lost_edits(known: Record, arrived: Record) -> list[Lost]:
    """Return the edits of ``known`` or ``arrived`` that lost against a concurrent one of the other record.

    Two edits are concurrent if the one that counts replaced an edit older than the other one: where it was made, the
    other one was not known. Edits with equal values do not compete. A deletion is concurrent with the edits of a
    cluster that are newer than the one that it replaced. A deletion that does not tell which edits it replaced competes
    with none.
    """
    merged, found = known.merge(arrived), []
    for unit, edit in arrived.edits.items():
        present, winner = known.edits.get(unit), merged.edits.get(unit)
        if present is None or winner is None or present.timestamp == edit.timestamp or present.value == edit.value:
            continue
        loser = edit if winner.timestamp == present.timestamp else present
        if winner.replaced is None or winner.replaced < loser.timestamp:
            found.append(Lost(unit, loser, winner.timestamp))
    return [*found, *_deleted(known, merged), *_deleted(arrived, merged)]


def _deleted(part: Record, merged: Record) -> Iterator[Lost]:
    """Yield the edits of a part of a merged record that lost against its deletion."""
    if merged.deleted is None or merged.deleted == part.deleted or merged.replaced is None:
        return
    replaced = {each.cluster: each for each in merged.replaced}
    for unit, edit in part.edits.items():
        known = replaced.get(edit.timestamp.cluster)
        if edit.timestamp < merged.deleted and (known is None or known < edit.timestamp):
            yield Lost(unit, edit, merged.deleted)
