"""The notes that a log keeps beside its segments: the life that its ids belong to, and that entries are not synced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import CorruptionError
from magnetar.base.life import Life

if TYPE_CHECKING:
    from magnetar.ledger.medium.interface import SegmentMedium

LIFE_NAME: Final = "life"

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
