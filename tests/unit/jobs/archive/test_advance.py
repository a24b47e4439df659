"""The advance of an archive."""

from __future__ import annotations

import json
from typing import Any

from magnetar.base.position import Position
from magnetar.jobs.archive.advance import Advance
from magnetar.spark.read.ranges import Ledger, Log


def offset(**topics: tuple[str, int]) -> dict[str, Any]:
    return {topic: {"next": end, "tasks": [[end, entries]]} for topic, (end, entries) in topics.items()}


def event(batch: int, start: dict[str, Any] | None, end: dict[str, Any], messages: int) -> dict[str, Any]:
    source = {"startOffset": json.dumps(start), "endOffset": json.dumps(end)}
    return {"batchId": batch, "numInputRows": messages, "sources": [source]}


def test_each_batch_is_counted_once() -> None:
    first, second = offset(a=("1:10", 10)), offset(a=("1:15", 5), b=("2:3", 3))
    events = [event(0, None, first, 100), event(1, first, second, 80)]
    advance = Advance()
    advance.note(events[:1])
    advance.note(events)
    assert (advance.entries, advance.messages, advance.batches) == ({"a": 15, "b": 3}, 180, 2)
    assert advance.ends == {"a": Position(1, 15), "b": Position(2, 3)}


def test_an_event_without_new_entries_is_ignored() -> None:
    first, second = offset(a=("1:10", 10)), offset(a=("1:15", 5))
    advance = Advance()
    advance.note([event(0, None, first, 100), event(1, first, first, 0), event(1, first, second, 7)])
    assert (advance.entries, advance.messages, advance.batches) == ({"a": 15}, 107, 2)


def test_entries_after_the_archived_ones_remain() -> None:
    advance = Advance({"a": Position(1, 4)})
    logs = {"a": Log([Ledger(1, 10, 100), Ledger(2, 3, 30)]), "b": Log([Ledger(7, 2, 20)]), "c": Log([])}
    assert advance.remaining(logs) == 6 + 3 + 2
