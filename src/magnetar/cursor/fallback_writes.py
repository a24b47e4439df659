"""Writing what a cursor's ledger lacks to the metadata store, while the ledger cannot be written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from magnetar.cursor.fallback import Fallback, fallback_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.base.errors import StorageError
    from magnetar.cursor.info import CursorInfo
    from magnetar.cursor.records import Change
    from magnetar.cursor.state import CursorState
    from magnetar.metadata.store import OnDurable

log = structlog.get_logger(__name__)


class Fallbacks:
    """The fallbacks of one cursor. The metadata store holds the newest one at most."""

    def __init__(self, info: CursorInfo, number: int = 0) -> None:
        """Continue after the fallback with this number."""
        self._info = info
        self.number = number
        """The number of the newest fallback."""
        self._writes: list[_Write] = []
        """Writes that no durable checkpoint contains, oldest first."""

    def write(
        self,
        state: CursorState,
        lost: Change,
        properties: Mapping[str, int],
        whole: Callable[[], list[bytes]],
        cause: StorageError,
    ) -> None:
        """Write to the metadata store what the ledger lacks, because of ``cause``.

        The record holds the whole state where a power loss could take the records that the lost changes follow:
        recovery would add them to a state from before a reset, or to one without the acknowledgements in between.

        A record that must leave something out never takes the place of a complete state: of an earlier fallback, which
        may have been confirmed, or of the records in the ledger, which a whole state replaces.
        """
        info = self._info
        home = info.home
        if not home.store.syncs:
            lost = replace(lost, replaced=True)
        attached = whole() if lost.replaced else []
        record, left_out = fallback_record(state, lost, properties, attached, home.limits.metadata_ranges_max)
        self.number += 1
        write = _Write(self.number)
        self._writes.append(write)
        if left_out and (lost.replaced or info.fallback is not None):
            home.metadata.barrier(lambda _: write.settle(cause))
            return
        if info.fallback is None:
            log.warning("cursor_falls_back_to_metadata", cursor=home.path, left_out=left_out)
        info.fallback = Fallback(self.number, record)

        def stored(error: StorageError | None) -> None:
            if error is not None:
                log.warning("cursor_fallback_failed", cursor=home.path, error=str(error))
            write.settle(cause if left_out or error is not None else None)

        info.save(stored)

    def then(self, done: OnDurable) -> None:
        """Call ``done`` when the newest fallback is durable; with the cause if it does not hold all that was lost."""
        if self._writes:
            self._writes[-1].then(done)
        else:
            done(None)

    def contained(self, number: int) -> None:
        """Note that a durable checkpoint contains the fallbacks up to ``number``, stored or not."""
        writes, self._writes = self._writes, [write for write in self._writes if write.number > number]
        for write in writes:
            if write.number <= number:
                write.settle(None)

    def forget(self, number: int) -> None:
        """Remove the fallbacks up to ``number`` from the metadata store."""
        info = self._info
        if info.fallback is not None and info.fallback.number <= number:
            info.fallback = None
            info.save(lambda _: None)  # if it stays, that is no harm: it does not apply any more


class _Write:
    """The write of one fallback, and those who wait for it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._waiting: list[OnDurable] = []
        self._is_settled = False
        self._outcome: StorageError | None = None

    def then(self, done: OnDurable) -> None:
        if self._is_settled:
            done(self._outcome)
        else:
            self._waiting.append(done)

    def settle(self, outcome: StorageError | None) -> None:
        if not self._is_settled:
            self._is_settled, self._outcome = True, outcome
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done(outcome)
