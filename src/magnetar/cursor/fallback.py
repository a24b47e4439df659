"""What the metadata store takes over while a cursor's ledger cannot be written: one more record, in a small space.

What does not fit gives way in the order of PIP-299: properties stay, then what the owner attached (of the
deduplication cursor, the producers' sequence ids), then ranges, then batches that are acknowledged in part. Nothing
is written where this would take back what was confirmed (``fallback_writes.py``).
"""

from __future__ import annotations

import base64
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from magnetar.cursor.limits import METADATA_RECORD_BYTES_MAX
from magnetar.cursor.ranges import DeletedEntries
from magnetar.cursor.records import encode_record, entries_beyond, record_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.cursor.records import Change
    from magnetar.cursor.state import CursorState


class Fallback(NamedTuple):
    """A record in the metadata store, which applies unless a later checkpoint says that it holds it."""

    number: int
    record: bytes

    def to_json(self) -> dict[str, object]:
        """As it is kept in a cursor's metadata."""
        return {"number": self.number, "record": base64.b64encode(self.record).decode()}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Fallback:
        """Read it back."""
        return cls(int(str(value["number"])), base64.b64decode(str(value["record"])))


def fallback_record(
    state: CursorState, change: Change, properties: Mapping[str, int], whole: list[bytes], ranges_max: int
) -> tuple[bytes, int]:
    """A record of ``change`` that has at most ``ranges_max`` ranges and batches, and how much had to be left out.

    ``whole`` is all that the owner attached; it counts when the state was replaced, and only then.
    """
    mark = state.mark_delete_position
    deleted = state.individually_deleted if change.replaced else entries_beyond(mark, change.deleted)
    kept = DeletedEntries()
    for stretch in islice(deleted, ranges_max):
        kept.add_range(stretch)
    batches = [position for position, _ in state.partial_batches()] if change.replaced else list(change.partial)
    partial = [(each, left) for each in batches if (left := state.remaining(each)) is not None]
    fitting = partial[: max(0, ranges_max - kept.runs)]
    attached = whole if change.replaced else change.attached
    left_out = deleted.runs - kept.runs + len(partial) - len(fitting)
    if sum(map(len, attached)) > METADATA_RECORD_BYTES_MAX:
        attached, left_out = [], left_out + len(attached)
    record = record_of(mark, kept, fitting, attached)
    record.checkpoint = change.replaced
    return encode_record(record, properties), left_out
