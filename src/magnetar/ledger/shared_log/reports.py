"""Reports of durable operations to their owners: in order, and of a large group in several turns of the event loop."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from magnetar.ledger.segments.record import Kind

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Container, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.ledger.shared_log.log import Operation
    from magnetar.ledger.shared_log.tail_cache import TailCache

REPORTS_MAX = 100
"""Operations that are reported in one turn of the event loop, some 50 us of work each."""

REPORTS_S = 0.002
"""Seconds of a turn in which a part of a group may begin; reports of deletions take more than 100 us each."""

PART_MAX = 10
"""Operations of a part."""


class Reports:
    """Durable operations that are not reported yet. Used on the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cache: TailCache, ledgers: Container[int]) -> None:
        """Add the entries of operations to ``cache``, if their ledger is one of ``ledgers``, which may change."""
        self._loop = loop
        self._cache = cache
        self._ledgers = ledgers
        self._waiting: deque[Sequence[Operation]] = deque()

    def add(self, operations: Sequence[Operation]) -> None:
        """Report a group: the first operations at once, unless others wait. Most groups have one part."""
        if self._waiting:
            self._waiting.append(operations)
        elif len(operations) <= PART_MAX:
            self.tell(operations)
        else:
            self._tell_some(operations)

    def finish(self) -> None:
        """Report all waiting operations at once."""
        while self._waiting:
            self.tell(self._waiting.popleft())

    def tell(self, operations: Sequence[Operation], error: StorageError | None = None) -> None:
        """Report operations at once; ``error`` is the reason why they failed."""
        for operation in operations:
            if operation.kind is Kind.RUN and error is None and operation.ledger_id in self._ledgers:
                self._cache.add(operation.ledger_id, operation.argument, operation.entries, operation.size)
            if operation.on_durable is not None:
                try:
                    operation.on_durable(error)
                except Exception as raised:  # noqa: BLE001 - one owner's bug must not keep the others waiting for ever
                    context = {"message": "on_durable of a ledger operation raised", "exception": raised}
                    self._loop.call_exception_handler(context)

    def _tell_some(self, operations: Sequence[Operation]) -> None:
        """Report the first parts of a group."""
        ends_at, left = self._loop.time() + REPORTS_S, REPORTS_MAX
        self._waiting.appendleft(operations)
        while self._waiting and left > 0:
            operations = self._waiting.popleft()
            if len(operations) > PART_MAX:
                self._waiting.appendleft(operations[PART_MAX:])
            self.tell(operations[:PART_MAX])
            left = left - PART_MAX if self._loop.time() < ends_at else 0
        if self._waiting:
            self._loop.call_soon(self._tell_more)

    def _tell_more(self) -> None:
        if self._waiting:  # otherwise ``finish`` was called
            self._tell_some(self._waiting.popleft())
