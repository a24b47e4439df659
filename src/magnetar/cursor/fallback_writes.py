"""Writing what a cursor's ledger lacks to the metadata store, while the ledger cannot be written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import StorageError
from magnetar.cursor.fallback import Fallback, fallback_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.cursor.info import CursorInfo
    from magnetar.cursor.records import Change
    from magnetar.cursor.state import CursorState

log = structlog.get_logger(__name__)


class Fallbacks:
    """The fallbacks of one cursor. The metadata store holds the newest one at most."""

    def __init__(self, info: CursorInfo, number: int = 0) -> None:
        """Continue after the fallback with this number."""
        self._info = info
        self.number = number
        """The number of the newest fallback."""

    def write(
        self, state: CursorState, lost: Change, properties: Mapping[str, int], whole: Callable[[], list[bytes]]
    ) -> int:
        """Write what the ledger lacks to the metadata store; return how much of it is not there, 0 if all is.

        The record holds the whole state where a power loss could take the records that the lost changes follow:
        recovery would add them to a state from before a reset, or to one without the acknowledgements in between.
        """
        info = self._info
        home = info.home
        if not home.store.syncs:
            lost = replace(lost, replaced=True)
        attached = whole() if lost.replaced else []
        record, left_out = fallback_record(state, lost, properties, attached, home.limits.metadata_ranges_max)
        if info.fallback is None:
            log.warning("cursor_falls_back_to_metadata", cursor=home.path, left_out=left_out)
        self.number += 1
        info.fallback = Fallback(self.number, record)
        try:
            if info.is_stored:
                info.save()
        except StorageError as error:
            log.warning("cursor_fallback_failed", cursor=home.path, error=str(error))
            return left_out + 1
        return left_out

    def forget(self, number: int) -> None:
        """Remove the fallbacks up to ``number``, which a durable checkpoint contains."""
        info = self._info
        if info.fallback is not None and info.fallback.number <= number:
            info.fallback = None
            if info.is_stored:
                info.save_later()  # if it stays, that is no harm: it does not apply any more
