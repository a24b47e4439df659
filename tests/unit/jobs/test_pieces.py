"""The pieces of logs that tasks read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs import pieces as module
from magnetar.jobs.pieces import Piece, pieces, tasks
from magnetar.spark.read.ranges import TASK_BYTES, Ledger

if TYPE_CHECKING:
    import pytest

TOPIC = "persistent://public/default/orders"
WHOLE = Piece("jfk", TOPIC, Position(7, 0), Position(7, 9), 9, 900)


def test_a_log_is_read_from_the_end_of_the_last_run() -> None:
    ledgers = [Ledger(5, 100, 2 * TASK_BYTES), Ledger(8, 10, 100)]
    found = pieces("jfk", TOPIC, Position(5, 40), ledgers)
    assert (found[0].start, found[-1].end) == (Position(5, 40), Position(8, 10))
    assert sum(piece.entries for piece in found) == 70
    assert len(found) == 2
    assert pieces("jfk", TOPIC, Position(8, 10), ledgers) == []
    assert pieces("jfk", TOPIC, EARLIEST, []) == []


def test_small_topics_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECES_PER_TASK", 3)
    small, large = WHOLE, WHOLE._replace(size=TASK_BYTES)
    assert [len(task) for task in tasks([small] * 7)] == [3, 3, 1]
    assert [len(task) for task in tasks([small, large, small])] == [1, 1, 1]
    assert tasks([]) == []
