"""A reset of a cursor passes the entries between the mark-delete position and the goal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.cli.states import skips_messages

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

TOPIC = TopicName.parse("persistent://nyc/flights/obs")

LEDGERS = {3: 10, 5: 0, 7: 4}
"""The number of entries of each ledger."""


def client(mark: str, *, lists_open: bool, by_time: str = "") -> AdminClient:
    """Return a client of a cluster with LEDGERS; ``lists_open``: the list has the entries of the open ledger."""
    counts = LEDGERS if lists_open else LEDGERS | {7: 0}
    stats: dict[str, Any] = {
        "ledgers": [{"ledgerId": ledger_id, "entries": entries} for ledger_id, entries in counts.items()],
        "currentLedgerEntries": 4,
        "lastConfirmedEntry": "7:3",
        "cursors": {"sub": {"markDeletePosition": mark}},
    }
    ledger_id, _, entry_id = by_time.partition(":")
    topics = SimpleNamespace(
        partitions=lambda _: 0,
        internal_stats=lambda _: stats,
        message_id_by_time=lambda _topic, _time: {"ledgerId": int(ledger_id), "entryId": int(entry_id)},
    )
    return cast("AdminClient", SimpleNamespace(topics=topics))


@pytest.mark.parametrize("lists_open", [True, False], ids=["Magnetar", "Pulsar"])
@pytest.mark.parametrize(
    ("mark", "goal", "skips"),
    [
        ("-1:-1", "3:0", False),
        ("-1:-1", "3:1", True),
        ("2:7", "3:0", False),
        ("3:-1", "3:0", False),
        ("3:4", "3:5", False),
        ("3:4", "3:6", True),
        ("3:4", "3:2", False),
        ("3:9", "5:0", False),
        ("3:9", "7:0", False),
        ("3:9", "7:1", True),
        ("3:8", "7:0", True),
        ("5:-1", "7:0", False),
        ("7:3", "7:9", False),
        ("7:2", "8:0", True),
        ("7:1", "3:0", False),
    ],
)
def test_entries_between_the_mark_and_the_goal(mark: str, goal: str, skips: bool, lists_open: bool) -> None:
    reached, at_goal = client(mark, lists_open=lists_open), Position.parse(goal)
    assert skips_messages(reached, TOPIC, "sub", at_goal) is skips
    before = at_goal._replace(entry_id=at_goal.entry_id - 1)
    if before.entry_id >= 0:
        assert skips_messages(reached, TOPIC, "sub", before, is_excluded=True) is skips, "the same goal"


@pytest.mark.parametrize(
    ("mark", "found", "skips"),
    [("3:9", "7:0", False), ("3:8", "7:0", True), ("7:2", "7:3", True), ("7:3", "7:3", False), ("7:1", "7:2", False)],
)
def test_a_time_after_all_entries_passes_the_last_one(mark: str, found: str, skips: bool) -> None:
    assert skips_messages(client(mark, lists_open=True, by_time=found), TOPIC, "sub", 1_000) is skips
