"""What is acknowledged in the target, from what is acknowledged in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from magnetar.jobs.translate import states
from magnetar.jobs.translate.states import Places, done_in, verdicts
from magnetar.jobs.translate.tables import VERDICTS, Match, Verdict
from tests.unit.jobs.translate.entries import SOURCE, TARGET, TOPIC, matched, source, state, target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.jobs.acknowledgements import Acknowledged
    from tests.unit.jobs.translate.entries import Row


def found(
    rows: Sequence[Row], of_source: Acknowledged, of_target: Acknowledged | None = None
) -> dict[str, list[tuple[int | None, int | None]]]:
    """Return first and last entries by verdict."""
    table = verdicts(matched(*rows), "s", of_source, of_target)
    assert table.schema == VERDICTS
    by_verdict: dict[str, list[tuple[int | None, int | None]]] = {}
    for row in table.to_pylist():
        assert (row["topic"], row["subscription"], row["ledger"]) == (TOPIC, "s", TARGET if row["ledger"] else None)
        by_verdict.setdefault(row["verdict"], []).append((row["first"], row["last"]))
    return by_verdict


def row_of(verdict: Verdict, table: pa.Table) -> dict[str, Any]:
    (row,) = [each for each in table.to_pylist() if each["verdict"] == verdict.value]
    return dict(row)


def test_what_a_subscription_has_acknowledged() -> None:
    acknowledged = state(2, [(5, 6), (9, 9)], {8: 0b0110, 6: 0b1})
    done = done_in(acknowledged, Places(np.full(12, SOURCE), np.arange(12)))
    assert np.flatnonzero(done.whole).tolist() == [0, 1, 2, 5, 6, 9]
    assert done.remaining == {8: 0b0110}, "6 is in a range"
    others = done_in(acknowledged, Places(np.array([SOURCE - 1, SOURCE + 1]), np.array([50, 0])))
    assert others.whole.tolist() == [True, False], "an older and a newer ledger"


def test_acknowledgements_follow_the_order_of_the_target() -> None:
    rows = [*source(1, 2, 3, 4, 5), *target(5, 1, 3, 2, 4)]
    assert found(rows, state(1, [(3, 3)])) == {"acknowledged": [(1, 1), (3, 4)], "unacknowledged": [(0, 0)]}


def test_the_rest_of_a_batch_is_translated() -> None:
    rows = [*source(1, 2), *target(2, 1)]
    row = row_of(Verdict.PARTLY, verdicts(matched(*rows), "s", state(0, [], {1: 0b0101})))
    assert (row["first"], row["count"], row["remaining"]) == (0, 4, b"\x05" + bytes(7))


@pytest.mark.parametrize(
    ("acknowledged", "expected"),
    [
        (state(1), {"acknowledged": [(0, 1)]}),
        (state(0), {"unacknowledged": [(0, 0)], "undecided": [(0, 0), (1, 1)]}),
        (state(), {"unacknowledged": [(0, 0)]}),
        (state(0, [], {1: 0b1}), {"partly acknowledged": [(0, 0), (1, 1)], "unacknowledged": [(0, 0)], "undecided": 2}),
        (state(-1, [], {0: 3, 1: 3}), {"partly acknowledged": [(0, 0), (1, 1)], "unacknowledged": [(0, 0)]}),
        (state(-1, [], {0: 3}), {"unacknowledged": [(0, 0)], "undecided": [(0, 0), (1, 1)]}),
    ],
)
def test_an_ambiguous_message_is_acknowledged_only_if_all_equal_ones_are(
    acknowledged: Acknowledged, expected: dict[str, Any]
) -> None:
    both = [(0, 0), (1, 1)]
    assert found([*source(1, 1), *target(1, 1)], acknowledged) == {
        verdict: both if value == 2 else value for verdict, value in expected.items()
    }


def test_equal_batches_keep_each_message_that_one_of_them_keeps() -> None:
    rows = matched(*source(1, 1), *target(1))
    row = row_of(Verdict.PARTLY, verdicts(rows, "s", state(-1, [], {0: 0b0011, 1: 0b0110})))
    assert row["remaining"][0] == 0b0111


def test_copies_of_one_message_are_all_acknowledged() -> None:
    assert found([*source(1), *target(1, 1)], state(0)) == {"acknowledged": [(0, 1)]}


def test_a_message_that_the_source_never_had_is_not_acknowledged() -> None:
    rows = [*source(1), *target(1), *target(2, first=1, from_source=False)]
    assert found(rows, state(0)) == {"acknowledged": [(0, 0)], "unacknowledged": [(1, 1)]}


def test_a_message_that_the_source_has_deleted_is_acknowledged() -> None:
    rows = matched(*target(1))
    deleted = rows.set_column(1, "match", pa.array([Match.DELETED_IN_SOURCE.value]))
    assert verdicts(deleted, "s", state())["verdict"].to_pylist() == ["acknowledged"]


def test_messages_that_the_target_lacks_are_counted() -> None:
    row = row_of(Verdict.ONLY_IN_SOURCE, verdicts(matched(*source(1, 2, 3)), "s", state(1)))
    assert (row["ledger"], row["count"]) == (None, 2)


@pytest.mark.parametrize(
    ("existing", "ahead"),
    [
        (state(1, ledger=TARGET), None),
        (state(1, [], {3: 0b0111}, ledger=TARGET), None),
        (state(2, ledger=TARGET), (2, 1)),
        (state(0, [(2, 4)], ledger=TARGET), (2, 3)),
        (state(0, [], {3: 0b0001}, ledger=TARGET), (3, 1)),
        (state(0, [], {4: 0b0111}, ledger=TARGET), (4, 1)),
    ],
)
def test_a_target_is_ahead_if_it_has_acknowledged_more(existing: Acknowledged, ahead: tuple[int, int] | None) -> None:
    rows = matched(*source(1, 2, 3, 4, 5), *target(1, 2, 3, 4, 5))
    table = verdicts(rows, "s", state(1, [], {3: 0b0011}), existing)
    rows_ahead = [(row["first"], row["count"]) for row in table.to_pylist() if row["verdict"] == "ahead"]
    assert rows_ahead == ([] if ahead is None else [ahead])


def test_some_undecided_entries_are_named_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "NAMED_MAX", 1)
    table = verdicts(matched(*source(1, 1), *target(1, 1, 1)), "s", state(0))
    rows = [(row["first"], row["count"]) for row in table.to_pylist() if row["verdict"] == "undecided"]
    assert rows == [(0, 1), (None, 2)]
