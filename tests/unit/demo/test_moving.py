"""The account and the report of the demo of a migration."""

from __future__ import annotations

from dataclasses import replace

from magnetar.demo.moving.account import BEFORE, ROLLBACK, SWITCH, Account
from magnetar.demo.moving.report import CLEAN, Move, Report

MOVE = Move(
    messages=1_000,
    lost=0,
    repeated=0,
    out_of_order=0,
    redelivered_unacknowledged=2,
    unavailable_ms={"p50": 310.0, "p99": None},
    released=0,
    audit=CLEAN,
)


def test_messages_are_counted_by_their_phase() -> None:
    account = Account()
    for phase, count in ((BEFORE, 2), (SWITCH, 3)):
        account.phase = phase
        for _ in range(count):
            account.sent("eu 1")
    assert account.next_number("eu 1") == 6
    for number in (1, 2, 4, 4, 3):
        account.received("billing", "eu 1", number)
    assert [account.messages(phase) for phase in (BEFORE, SWITCH, ROLLBACK)] == [2, 3, 0]
    assert (account.lost(BEFORE, ("billing",)), account.lost(SWITCH, ("billing",))) == (0, 1)
    assert account.lost(SWITCH, ("billing", "audit")) == 4
    assert (account.repeated[SWITCH], account.out_of_order[SWITCH]) == (1, 1)


def test_a_good_report() -> None:
    report = Report(topics=10, switch=MOVE, rollback=MOVE, seconds=90.5)
    assert report.failures == []
    assert report.to_json()["switch"]["audit"] == "clean"
    shown = {row["what"]: row["switch"] for row in report.rows()}
    assert (shown["messages published"], shown["unavailable, p99 (ms)"]) == ("1,000", "unknown")


def test_broken_promises() -> None:
    bad = replace(MOVE, lost=1, repeated=2, out_of_order=3, released=4, audit=[{"kind": "lost"}])
    assert Report(topics=10, switch=MOVE, rollback=bad, seconds=1.0).failures == [
        "1 messages were lost in the rollback",
        "2 acknowledged messages were repeated in the rollback",
        "3 messages came out of order in the rollback",
        "4 topics were released in the rollback",
        "the audit has 1 findings in the rollback",
    ]
