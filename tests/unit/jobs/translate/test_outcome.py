"""The translated state of a subscription."""

from __future__ import annotations

import pyarrow as pa

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.translate.outcome import Partial, translation_of
from magnetar.jobs.translate.tables import VERDICTS, Verdict
from tests.unit.jobs.translate.entries import TOPIC

Row = tuple[Verdict, int | None, int | None, int | None, int, bytes | None]


def acknowledged(ledger: int, first: int, last: int) -> Row:
    return (Verdict.ACKNOWLEDGED, ledger, first, last, last - first + 1, None)


def table(*rows: Row) -> pa.Table:
    names = VERDICTS.names[2:]
    listed = [dict(zip(names, (row[0].value, *row[1:]), strict=True)) for row in rows]
    return pa.Table.from_pylist(listed, VERDICTS)


def test_the_mark_delete_position_is_before_the_first_unacknowledged_entry() -> None:
    rest: Row = (Verdict.UNACKNOWLEDGED, 7, 5, 5, 2, None)
    later: Row = (Verdict.UNACKNOWLEDGED, 8, 3, 3, 1, None)
    found = translation_of(
        TOPIC,
        "s",
        table(later, acknowledged(8, 4, 9), acknowledged(7, 0, 2), acknowledged(7, 4, 4), acknowledged(8, 0, 1), rest),
    )
    assert (found.mark_delete, found.ranges) == (Position(7, 4), [(8, 0, 1), (8, 4, 9)])
    assert found.unacknowledged == 3
    assert found.to_json() == {
        "topic": TOPIC,
        "subscription": "s",
        "markDeletePosition": "7:4",
        "ranges": [[8, 0, 1], [8, 4, 9]],
        "batches": {},
        "unacknowledged": 3,
        "undecided": 0,
        "undecidedPositions": [],
        "ahead": 0,
        "onlyInSource": 0,
    }


def test_ranges_that_touch_become_one() -> None:
    rest: Row = (Verdict.UNACKNOWLEDGED, 7, 0, 0, 1, None)
    found = translation_of(
        TOPIC, "s", table(rest, acknowledged(7, 1, 4), acknowledged(7, 5, 9), acknowledged(8, 10, 10))
    )
    assert (found.mark_delete, found.ranges) == (EARLIEST, [(7, 1, 9), (8, 10, 10)])


def test_without_unacknowledged_entries_all_is_before_the_mark_delete_position() -> None:
    found = translation_of(TOPIC, "s", table(acknowledged(7, 0, 4), acknowledged(9, 0, 3)))
    assert (found.mark_delete, found.ranges) == (Position(9, 3), [])
    assert translation_of(TOPIC, "s", table()).mark_delete == EARLIEST


def test_batches_and_counts() -> None:
    found = translation_of(
        TOPIC,
        "s",
        table(
            (Verdict.PARTLY, 7, 3, 3, 70, bytes(8) + b"\1" + bytes(7)),
            (Verdict.UNDECIDED, 7, 5, 5, 1, None),
            (Verdict.UNDECIDED, None, None, None, 30, None),
            (Verdict.AHEAD, 7, 8, 8, 4, None),
            (Verdict.ONLY_IN_SOURCE, None, None, None, 6, None),
        ),
    )
    assert found.batches == {Position(7, 3): Partial(1 << 64, 70)}
    assert found.to_json()["batches"] == {"7:3": [0, 1]}
    assert (found.undecided, found.undecided_shown) == (31, [Position(7, 5)])
    assert (found.ahead, found.first_ahead, found.only_in_source) == (4, Position(7, 8), 6)
