"""Group commit without a thread: groups are written one after the other, with simulated disk latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.shared_log.committer import Committer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from random import Random

    from magnetar.ledger.shared_log.log import Log, Operation, Report

QUICK_S = (0.0002, 0.004)
"""Bounds of the usual latency of a write and its sync, in seconds."""

SLOW_S = (0.02, 0.3)
"""Bounds of the occasional high latency, in seconds."""

SLOW_CHANCE = 0.05


class VirtualCommitter(Committer):
    """See Committer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        chance: Random,
        log: Log,
        group_bytes: int,
        report: Report,
    ) -> None:
        """Commit on ``loop``, with latencies drawn from ``chance``."""
        super().__init__(log, group_bytes, report)
        self._loop = loop
        self._chance = chance
        self._queue: list[Operation] = []
        self._group: Sequence[Operation] = ()
        """The group in flight to the disk."""
        self._is_busy = False

    def start(self) -> None:
        """See Committer; there is no thread."""

    def submit(self, operation: Operation) -> None:
        """See Committer."""
        self._queue.append(operation)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._begin)

    def take_back(self) -> list[Operation]:
        """See Committer."""
        taken, self._queue = self._queue, []
        return taken

    def resume(self) -> None:
        """See Committer."""
        self._failure = None
        self._go_on()

    async def end(self) -> None:
        """See Committer; the group ends only with the process."""

    def tear(self) -> None:
        """Write as much of the group in flight as the disk accepts while power is lost."""
        run_blocking(self._log.commit, self._group)

    def _begin(self) -> None:
        self._group, self._queue = self._queue, []
        span = SLOW_S if self._chance.random() < SLOW_CHANCE else QUICK_S
        self._loop.call_later(self._chance.uniform(*span), self._end)

    def _end(self) -> None:
        group, self._group = self._group, ()
        run_blocking(self._log.commit, group)
        if self._failure is None:
            run_blocking(self._log.remove_dead_segments)
            self._go_on()

    def _go_on(self) -> None:
        self._is_busy = bool(self._queue)
        if self._queue:
            self._begin()
