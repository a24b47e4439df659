"""What is durable is reported in the order of the requests, of a large group in several turns of the event loop."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.base.real import SystemFiles
from magnetar.ledger.local import LocalLedgerStore
from magnetar.ledger.shared_log import reports
from tests.unit.ledger.support import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from magnetar.base.errors import StorageError
    from magnetar.ledger.shared_log.log import Operation

AT_ONCE = 4
OPERATIONS = 30


class Told:
    """A store whose log writes one large group, and what it reports."""

    def __init__(self, path: Path) -> None:
        self.store = LocalLedgerStore(path, SystemFiles(), asyncio.get_running_loop(), SMALL)
        self.heard: list[tuple[int, bool]] = []
        """Numbers of the operations that were reported, and whether they failed."""
        self.by_turn: list[int] = []
        """Number of reports at the end of each turn."""
        self.fails = False
        self._began = asyncio.Event()

    async def begin(self) -> None:
        """Return when some of OPERATIONS were reported."""
        store, taken, written = self.store, threading.Event(), threading.Event()
        await store.open()
        commit = store._log.commit_now

        def commit_later(operations: Sequence[Operation]) -> bool:
            taken.set()
            written.wait()
            if self.fails:
                message = "no disk"
                raise OSError(message)
            return commit(operations)

        store._log.commit_now = commit_later  # type: ignore[method-assign]
        ledgers = [store.create() for _ in range(2)]
        store.barrier(lambda _: None)
        taken.wait()  # the operations after the first group are one group
        for number in range(OPERATIONS):
            store.append(ledgers[number % 2], [b"%d" % number], partial(self._hear, number))
        written.set()
        await self._began.wait()
        assert 0 < len(self.heard) < OPERATIONS
        asyncio.get_running_loop().call_soon(self._look)

    def barrier(self, number: int) -> None:
        """Ask for one more operation."""
        self.store.barrier(partial(self._hear, number))

    def _hear(self, number: int, error: StorageError | None) -> None:
        self.heard.append((number, error is not None))
        self._began.set()

    def _look(self) -> None:
        self.by_turn.append(len(self.heard))
        asyncio.get_running_loop().call_soon(self._look)


@pytest.fixture(autouse=True, params=[("REPORTS_MAX", AT_ONCE), ("REPORTS_S", 0.0)], ids=["number", "time"])
def at_once(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let few reports fit into a turn, by their number or by their time."""
    monkeypatch.setattr(reports, *request.param)
    monkeypatch.setattr(reports, "PART_MAX", AT_ONCE // 2)


def test_a_large_group_is_reported_in_several_turns(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told(tmp_path)
        await told.begin()
        last = asyncio.Event()
        told.barrier(OPERATIONS)
        told.store.barrier(lambda _: last.set())
        await last.wait()
        assert told.heard == [(number, False) for number in range(OPERATIONS + 1)]
        assert max(after - before for before, after in pairwise(told.by_turn)) <= AT_ONCE
        await told.store.close()

    asyncio.run(story())


def test_the_end_reports_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told(tmp_path)
        await told.begin()
        told.barrier(OPERATIONS)
        await told.store.close()
        assert told.heard == [(number, False) for number in range(OPERATIONS + 1)]

    asyncio.run(story())


def test_a_failure_is_reported_behind_the_rest_and_in_the_same_turn(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told(tmp_path)
        await told.begin()
        told.fails = True
        failed = asyncio.Event()
        for number in range(OPERATIONS, OPERATIONS + 3):
            told.barrier(number)
        told.store.barrier(lambda _: failed.set())
        told.store._committer._thread.join()  # it ends with the failure
        assert len(told.heard) < OPERATIONS
        await failed.wait()
        assert told.heard == [(number, number >= OPERATIONS) for number in range(OPERATIONS + 3)]
        assert not told.store.state.healthy
        await told.store.close()

    asyncio.run(story())
