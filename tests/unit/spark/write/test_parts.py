"""Attempts, partitions, and the windows of a topic that is read backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.spark.read.ranges import Ledger
from magnetar.spark.write.attempt import Attempt
from magnetar.spark.write.published import FIRST_WINDOW, WINDOW_GROWTH, windows
from magnetar.spark.write.routing import java_hash, partition_of


def test_attempts_of_a_task_have_the_same_ids_and_those_of_the_next_batch_higher_ones() -> None:
    first, second = (Attempt.of_stream("q", batch, 3) for batch in (7, 8))
    assert first == Attempt.of_stream("q", 7, 3)
    assert first.producer_name == second.producer_name
    assert first.first <= first.last < second.first
    assert Attempt.of_stream("q", 7, 4).producer_name != first.producer_name


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("a", 97), ("hello", 99162322), ("order-1", None), ("ü𝄞", None)]
)
def test_keys_have_the_hash_of_java(text: str, expected: int | None) -> None:
    by_definition = 0
    data = text.encode("utf-16-be")
    for at in range(0, len(data), 2):
        by_definition = by_definition * 31 + int.from_bytes(data[at : at + 2], "big")
    assert java_hash(text) == by_definition & 0x7FFFFFFF
    if expected is not None:
        assert java_hash(text) == expected


def test_a_message_without_a_key_goes_to_the_partition_of_its_task() -> None:
    assert [partition_of(None, 3, number) for number in range(4)] == [0, 1, 2, 0]
    assert partition_of("hello", 3, 0) == 99162322 % 3


@given(st.lists(st.integers(1, 5_000), max_size=8))
def test_windows_are_the_whole_topic_backwards(sizes: list[int]) -> None:
    ledgers = [Ledger(number * 2, entries, 0) for number, entries in enumerate(sizes)]
    order = [Position(ledger.ledger_id, entry) for ledger in ledgers for entry in range(ledger.entries)]
    found: list[Position] = []
    size = FIRST_WINDOW
    for start, end in windows(ledgers):
        part = [place for place in order if start <= place < end]
        assert len(part) == min(size, len(order) - len(found))
        found = part + found
        size *= WINDOW_GROWTH
    assert found == order
