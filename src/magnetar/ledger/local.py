"""The embedded ledger store: one log on this machine's disk, shared by all ledgers of a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.shared_log.committer import Committer
from magnetar.ledger.shared_log.options import SharedLogOptions
from magnetar.ledger.shared_log.store import SharedLogStore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from magnetar.base.world import Files
    from magnetar.ledger.shared_log.log import Log, Report


@dataclass(frozen=True, slots=True)
class LocalStoreOptions(SharedLogOptions):
    """Limits of the embedded store."""

    reserve_bytes: int = 0
    """Room on the disk that is held back for what is urgent when the disk is full."""
    low_water_bytes: int = 0
    """Free space of the disk below which only what is urgent is taken; 0: the disk is not watched."""


class LocalLedgerStore(SharedLogStore):
    """A shared log in files of one directory."""

    def __init__(
        self,
        directory: Path,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        options: LocalStoreOptions,
        committer: Callable[[Log, int, Report], Committer] = Committer,
    ) -> None:
        """Use ``directory``, which must be nobody else's; nothing happens before ``open``."""
        medium = LocalMedium(
            directory,
            files,
            room=options.segment_bytes,
            reserve_bytes=options.reserve_bytes,
            low_water_bytes=options.low_water_bytes,
        )
        super().__init__(medium, loop, options, committer)
