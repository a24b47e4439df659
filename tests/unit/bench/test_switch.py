from __future__ import annotations

import random

import pytest

from bench.switch import (
    HELD,
    LATE_SECONDS,
    WORKLOADS,
    Account,
    Workload,
    acknowledge_at,
    entries_due,
    permits_due,
)

BY_ID = {workload.id: workload for workload in WORKLOADS}
RATE = 100.0


def test_publishing_is_steady_or_in_bursts_or_in_batches() -> None:
    assert [entries_due(BY_ID["caught-up"], RATE, at) for at in (0.0, 0.5, 1.99)] == [0, 50, 199]
    assert [entries_due(BY_ID["late-bursts"], RATE, at) for at in (0.5, 1.0, 1.99, 2.0)] == [0, 100, 100, 200]
    assert entries_due(BY_ID["batched"], RATE, 1.0) == 10


def test_a_slow_consumer_takes_half() -> None:
    assert permits_due(BY_ID["slow"], RATE, 2.0, queue=1_000) == 100
    assert permits_due(BY_ID["caught-up"], RATE, 2.0, queue=1_000) == 1_200


@pytest.mark.parametrize("name", ["caught-up", "batched", "kill"])
def test_a_consumer_that_keeps_up_acknowledges_at_once(name: str) -> None:
    chance = random.Random(1)
    assert {acknowledge_at(BY_ID[name], number, RATE, 3.0, chance) for number in range(1_000)} == {3.0}


def test_a_delayed_consumer_takes_old_messages() -> None:
    behind = Workload("behind", "behind", behind_s=10.0)
    assert [permits_due(behind, RATE, at, queue=1_000) for at in (5.0, 10.0, 12.5)] == [0, 0, 250]
    assert entries_due(behind, RATE, 12.5) == 1_250


def test_a_burst_is_worked_off_message_by_message() -> None:
    burst, chance = Workload("burst", "burst", burst_s=5.0, work_s=0.005), random.Random(1)
    assert [entries_due(burst, RATE, at) for at in (4.9, 5.0, 9.9, 10.0)] == [0, 500, 500, 1_000]
    times = [acknowledge_at(burst, number, RATE, 10.0, chance) for number in (500, 501, 999)]
    assert times == pytest.approx([10.005, 10.01, 12.5])


def test_a_share_is_late_within_its_bounds() -> None:
    chance = random.Random(1)
    times = [acknowledge_at(BY_ID["late"], number, RATE, 3.0, chance) for number in range(10_000)]
    late = [at - 3.0 for at in times if at is not None and at > 3.0]
    assert len(times) - times.count(3.0) == len(late)
    assert 400 < len(late) < 600
    assert min(late) >= LATE_SECONDS[0]
    assert max(late) <= LATE_SECONDS[1]


def test_the_first_messages_are_held() -> None:
    chance = random.Random(1)
    times = [acknowledge_at(BY_ID["slow"], number, RATE, 3.0, chance) for number in range(10)]
    assert times == [None] * HELD + [3.0] * (10 - HELD)


def test_the_account_tells_duplicates_from_what_nobody_had_acknowledged() -> None:
    account = Account(published=10, acknowledged={0, 1, 2, 3, 4, 5, 6}, received={6, 7, 8})
    assert account.duplicates == 1
    assert account.missing == 1


def test_a_message_without_a_receipt_is_not_missing() -> None:
    account = Account(published=2, acknowledged={0, 1, 2}, received={3})
    assert account.missing == 0
