"""Group commit without a thread: groups are written one after the other, each after as long as the disk takes."""

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
"""How long a write and its sync take."""

SLOW_S = (0.02, 0.3)
"""How long they take now and then."""

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
        """Commit on ``loop``, as fast as ``chance`` has it."""
        super().__init__(log, group_bytes, report)
        self._loop = loop
        self._chance = chance
        self._queue: list[Operation] = []
        self._group: Sequence[Operation] = ()
        """What is on its way to the disk."""
        self._is_busy = False

    def start(self) -> None:
        """There is no thread."""

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
        """Nothing ends but with the process."""

    def tear(self) -> None:
        """Have the disk see what it can of the group that is on its way, while power is lost."""
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
