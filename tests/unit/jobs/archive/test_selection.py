"""The selection of a restoration."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.jobs.archive.contents import ArchivedFile, Contents
from magnetar.jobs.archive.selection import Selection, targets_of

A, B, ODD = (f"persistent://public/default/{name}" for name in ("a", "b", "x=y"))


def contents(*topics: str) -> Contents:
    return Contents("id", [ArchivedFile(topic, "2026-01-02", Path("file")) for topic in topics], {})


@pytest.mark.parametrize(
    ("topics", "to", "targets"),
    [
        ((), "", {A: A, B: B}),
        ((A,), "", {A: A}),
        ((A,), "public/default/c", {A: "persistent://public/default/c"}),
        ((), f"{A}={A}-copy", {A: f"{A}-copy", B: B}),
        ((), f"{A}={B}, {B}={A}", {A: B, B: A}),
    ],
)
def test_topics_keep_their_names_unless_a_target_is_given(
    topics: tuple[str, ...], to: str, targets: dict[str, str]
) -> None:
    assert targets_of(contents(A, A, B), topics, to) == targets


def test_names_may_contain_equals_signs() -> None:
    assert targets_of(contents(ODD), (), f"{ODD}={ODD}-copy") == {ODD: f"{ODD}-copy"}


@pytest.mark.parametrize(
    ("topics", "to", "reason"),
    [
        (("public/default/c",), "", f"no messages of persistent://public/default/c\nhint: it has {A}, {B}"),
        (("a://b",), "", "--topics: "),
        ((), A, "is not of the form SOURCE=TARGET"),
        ((), f"{A}={B}", f"{B} is the target of several topics"),
        ((A,), f"{A}=a://b", "--to: "),
        ((A,), f"{A}-partition-0", "is a partition"),
    ],
)
def test_a_wrong_selection_is_named(topics: tuple[str, ...], to: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        targets_of(contents(A, B), topics, to)


def test_the_files_of_other_topics_and_days_are_not_read() -> None:
    start, end = datetime(2026, 1, 2, 12, tzinfo=UTC), datetime(2026, 1, 3, 12, tzinfo=UTC)
    files = [
        ArchivedFile(topic, f"2026-01-0{day}", Path(f"{topic[-1]}{day}")) for topic in (A, B) for day in range(1, 5)
    ]
    assert [str(one.path) for one in Selection("id", {A: A}, start, end).files(files)] == ["a2", "a3"]
    assert len(Selection("id", {A: A}, None, None).files(files)) == 4


def test_partitions_keep_their_numbers() -> None:
    selection = Selection("id", {A: B}, None, None)
    assert selection.target(f"{A}-partition-3") == f"{B}-partition-3"
    assert selection.target(A) == B


def test_each_selection_has_a_producer_of_its_own() -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    names = [
        Selection(archive, {A: B}, start, end).producer_name(topic)
        for archive in ("id", "other")
        for start, end in ((None, None), (time, None), (None, time))
        for topic in (A, f"{A}-partition-0")
    ]
    assert len(set(names)) == len(names)
    assert Selection("id", {A: A}, None, None).producer_name(A) == names[0], "in whatever target"
