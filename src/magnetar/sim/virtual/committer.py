"""Group commit without a thread: groups are written one after the other, each after as long as the disk takes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.ledger.shared_log.committer import Committer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from random import Random

    from magnetar.ledger.shared_log.committer import Commit, Report
    from magnetar.ledger.shared_log.log import Operation

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
        commit: Commit,
        group_bytes: int,
        report: Report,
        after_group: Callable[[], None],
    ) -> None:
        """Commit on ``loop``, as fast as ``chance`` has it."""
        super().__init__(commit, group_bytes, report, after_group)
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
        self._go_on()

    def stop(self) -> None:
        """Nothing ends but with the process."""

    def join(self) -> None:
        """Nothing ends but with the process."""

    def tear(self) -> None:
        """Have the disk see what it can of the group that is on its way, while power is lost."""
        with suppress(StorageError, OSError):
            self._commit(self._group)

    def _begin(self) -> None:
        self._group, self._queue = self._queue, []
        span = SLOW_S if self._chance.random() < SLOW_CHANCE else QUICK_S
        self._loop.call_later(self._chance.uniform(*span), self._end)

    def _end(self) -> None:
        group, self._group = self._group, ()
        try:
            self._commit(group)
        except DiskFullError as error:
            self._report(group, error)  # and goes on when it is told to
        except StorageError as error:
            self._report(group, error)
        else:
            self._report(group, None)
            self._after_group()
            self._go_on()

    def _go_on(self) -> None:
        self._is_busy = bool(self._queue)
        if self._queue:
            self._begin()
