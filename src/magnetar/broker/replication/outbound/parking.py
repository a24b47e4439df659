"""Reason why a link is parked: its pipeline has stopped it, and retries after a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.links import PARKED_AFTER_METADATA, PARKED_METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping


class Parking:
    """The reason of one link, until its target confirms further entries."""

    def __init__(self) -> None:
        """Create it; the link is not parked."""
        self.reason: str | None = None
        """Reason why the pipeline parked the link; None after the target confirmed further entries."""
        self._after = EARLIEST

    def take_over(self, metadata: Mapping[str, str]) -> bool:
        """Read the reason from the metadata of a new holder; return whether it changed.

        A holder without a reason changes nothing. Raises RequestError for malformed metadata.
        """
        after, reason = parked_after(metadata), metadata.get(PARKED_METADATA)
        if reason is None:
            return False
        is_new = reason != self.reason
        self.reason, self._after = reason, after
        return is_new

    def confirmed(self, through: Position | None, *, is_all: bool) -> bool:
        """Note the target's position, and whether it holds all entries; return whether the link has resumed.

        After a crash of its source, a link sends confirmed entries again. It is still parked then, because the refused
        entry may be the next one.
        """
        if self.reason is None or not (is_all or (through is not None and through > self._after)):
            return False
        self.reason, self._after = None, EARLIEST
        return True


def parked_after(metadata: Mapping[str, str]) -> Position:
    """Return the position that the target had confirmed, EARLIEST if there is none. Raises RequestError."""
    text = metadata.get(PARKED_AFTER_METADATA)
    try:
        return EARLIEST if text is None else Position.parse(text)
    except ValueError as error:
        message = f"consumer metadata {PARKED_AFTER_METADATA}: {error}"
        raise RequestError(ServerError.MetadataError, message) from None
