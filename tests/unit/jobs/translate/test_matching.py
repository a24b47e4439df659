"""Equal entries of both clusters correspond."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.jobs.translate import matching
from magnetar.jobs.translate.matching import matches
from magnetar.jobs.translate.tables import MATCHES
from tests.unit.jobs.translate.entries import SOURCE, TARGET, identities, source, target

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.unit.jobs.translate.entries import Row


def found(*rows: Row) -> list[tuple[str, int | None, list[int]]]:
    """Return match, entry in the target, and entries in the source, sorted."""
    table: pa.Table = matches(identities(*rows))
    assert table.schema == MATCHES
    for row in table.to_pylist():
        assert row["ledger"] in (TARGET, None)
        assert row["source_ledgers"] == [SOURCE] * len(row["source_entries"])
    result = [(row["match"], row["entry"], row["source_entries"]) for row in table.to_pylist()]
    return sorted(result, key=str)


def test_entries_are_mapped_whatever_their_order() -> None:
    assert found(*source(1, 2, 3), *target(3, 1, 2)) == [("mapped", 0, [2]), ("mapped", 1, [0]), ("mapped", 2, [1])]
    assert found() == []


def test_entries_that_a_cluster_lacks_are_missing() -> None:
    assert found(*source(1, 2), *target(2, 3)) == [
        ("mapped", 0, [1]),
        ("missing in source", 1, []),
        ("missing in target", None, [0]),
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*source(1, 1), *target(1)], [("ambiguous", 0, [0, 1])]),
        ([*source(1), *target(1, 1)], [("ambiguous", 0, [0]), ("ambiguous", 1, [0])]),
        ([*source(1, 1), *target(1, 1)], [("ambiguous", 0, [0, 1]), ("ambiguous", 1, [0, 1])]),
        ([*source(1, 1)], [("missing in target", None, [0]), ("missing in target", None, [1])]),
        ([*target(1, 1)], [("missing in source", 0, []), ("missing in source", 1, [])]),
    ],
)
def test_several_equal_entries_are_ambiguous(
    rows: list[Row], expected: list[tuple[str, int | None, list[int]]]
) -> None:
    with_another = found(*rows, *source(9, first=5), *target(9, first=5))
    assert with_another == sorted([*expected, ("mapped", 5, [5])], key=str)


def test_of_too_many_equal_entries_none_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "SOURCES_MAX", 2)
    assert found(*source(1, 1, 1, 2), *target(1, 2)) == [("ambiguous", 0, []), ("mapped", 1, [3])]


def test_a_match_names_the_message() -> None:
    (row,) = matches(identities(*source(5), *target(5))).to_pylist()
    assert {name: row[name] for name in MATCHES.names[-5:]} == {
        "from_source": True,
        "producer_name": "p",
        "sequence_id": 5,
        "publish_time": 1_700_000_000_005,
        "messages": 4,
    }
