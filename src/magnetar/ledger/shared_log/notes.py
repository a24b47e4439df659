"""The notes that a log keeps beside its segments: its life, ids that it never gave, and that entries are not synced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import CorruptionError
from magnetar.base.life import Life

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.ledger.medium.interface import SegmentMedium

LIFE_NAME: Final = "life"

FOREIGN_NAME: Final = "foreign-ids"
"""Ids that the metadata named and the log did not know when it was opened, as ``first-last`` in each line.

Their ledgers were in files that are gone. Later ids are greater, so the log alone does not show it any more.
"""

UNSYNCED_NAME: Final = "unsynced"
"""There while entries are written that are not synced, until the log is closed in order."""


async def read_life(medium: SegmentMedium) -> Life | None:
    """Return the life that a log belongs to; None if it names none.

    Raises CorruptionError if the note is damaged, and StorageError if it cannot be read.
    """
    noted = await medium.note(LIFE_NAME)
    try:
        return None if noted is None else Life.parse(noted.decode())
    except ValueError as error:
        message = f"{medium.name_of(LIFE_NAME)}: offset 0: {error}"
        raise CorruptionError(message) from error


async def write_life(medium: SegmentMedium, life: Life) -> None:
    """Name a life, durably on return; raises StorageError."""
    await medium.put_note(LIFE_NAME, str(life).encode())


async def read_foreign(medium: SegmentMedium) -> list[range]:
    """Return the ranges of ids below the log's that it never gave.

    Raises CorruptionError if the note is damaged, and StorageError if it cannot be read.
    """
    noted = await medium.note(FOREIGN_NAME)
    try:
        bounds = [line.split("-") for line in (noted or b"").decode().split()]
        return [range(int(first), int(last) + 1) for first, last in bounds]
    except ValueError as error:
        message = f"{medium.name_of(FOREIGN_NAME)}: offset 0: {error}"
        raise CorruptionError(message) from error


async def write_foreign(medium: SegmentMedium, found: Sequence[range]) -> None:
    """Note ranges of ids, none of them empty, durably on return; raises StorageError."""
    lines = [f"{ids.start}-{ids.stop - 1}\n" for ids in found]
    await medium.put_note(FOREIGN_NAME, "".join(lines).encode())
