"""Why a link is parked: its pipeline had to give it up, and tries again after a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.links import PARKED_AFTER_METADATA, PARKED_METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping


class Parking:
    """The reason of one link, until its target has confirmed more than it had before."""

    def __init__(self) -> None:
        """The link is not parked."""
        self.reason: str | None = None
        """Why the pipeline had to give up the link; None once the target has confirmed more."""
        self._after = EARLIEST

    def take_over(self, metadata: Mapping[str, str]) -> bool:
        """Hear what a new holder says; whether it tells another reason than is known.

        A holder that does not know of any leaves it as it is. Raises RequestError for metadata that is malformed.
        """
        after, reason = parked_after(metadata), metadata.get(PARKED_METADATA)
        if reason is None:
            return False
        is_new = reason != self.reason
        self.reason, self._after = reason, after
        return is_new

    def confirmed(self, through: Position | None, *, is_all: bool) -> bool:
        """Hear what the target has confirmed now, and whether it holds everything; whether the link goes on by that.

        After a crash of its source a link sends entries again that the target had confirmed. It is still parked then:
        the entry that the target does not take may be the next one.
        """
        if self.reason is None or not (is_all or (through is not None and through > self._after)):
            return False
        self.reason, self._after = None, EARLIEST
        return True


def parked_after(metadata: Mapping[str, str]) -> Position:
    """Return the position that the target had confirmed, EARLIEST if the holder says none. Raises RequestError."""
    text = metadata.get(PARKED_AFTER_METADATA)
    try:
        return EARLIEST if text is None else Position.parse(text)
    except ValueError as error:
        message = f"consumer metadata {PARKED_AFTER_METADATA}: {error}"
        raise RequestError(ServerError.MetadataError, message) from None
