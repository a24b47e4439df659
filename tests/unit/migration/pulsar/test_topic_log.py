"""The same acknowledgements in two logs, compared with a model that knows which entries are the same."""

from __future__ import annotations

from random import Random

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.migration.pulsar.topic_log import TopicLog, existing, translated
from tests.unit.migration.pulsar.two_logs import PULSAR, TARGET, TwoLogs, random_logs


def mark_of(acknowledged: IntervalSet) -> Position:
    return next(iter(acknowledged)).upper


def read(logs: TwoLogs, start_in_pulsar: Position, start_in_target: Position) -> tuple[TopicLog, TopicLog]:
    """Return the log of the target, and of Apache Pulsar."""
    here, there = TopicLog(TARGET, PULSAR, start_in_target), TopicLog(PULSAR, TARGET, start_in_pulsar)
    logs.target.read_on(here)
    logs.pulsar.read_on(there)
    return here, there


@pytest.mark.parametrize("seed", range(200))
def test_the_same_entries_are_unacknowledged(seed: int) -> None:
    rng = Random(seed)
    logs = random_logs(rng)
    in_both = sorted(set(logs.pulsar.ids.values()) - logs.withheld)
    before = {each for each in in_both if rng.random() < rng.choice((0.2, 0.9))}
    now = before | {each for each in in_both if rng.random() < 0.5}
    withheld = {each for each in logs.withheld if rng.random() < 0.5}
    present = logs.pulsar.acknowledged(before | withheld)
    acknowledged = logs.target.acknowledged(now)
    left = [each for each in in_both if each not in now]
    partly = {logs.target.position_of(each): 5 for each in left if each in logs.batches and rng.random() < 0.5}
    here, there = read(logs, mark_of(present), mark_of(acknowledged))
    found = translated(acknowledged, partly, here, there, present, logs.pulsar.end)
    wanted = {logs.pulsar.position_of(each) for each in {*left, *(logs.withheld - withheld)}}
    sizes = {5: len(logs.pulsar.entries)}
    assert set(existing(IntervalSet.from_pairs(found.unacknowledged), sizes)) == wanted
    every = {Position(5, number) for number in range(len(logs.pulsar.entries))}
    assert set(existing(found.acknowledged, sizes)) == every - wanted
    assert (found.left, found.withheld) == (len(wanted), len(logs.withheld - withheld))
    assert found.first == min(wanted, default=None)
    assert not found.is_behind(present)
    numbers = {logs.target.ids[each] for each in partly}
    assert found.batches == {logs.pulsar.position_of(each): (5, 8) for each in numbers}


@pytest.mark.parametrize("seed", range(100))
def test_entries_of_the_target_are_claimed_in_its_positions(seed: int) -> None:
    rng = Random(seed)
    logs = random_logs(rng)
    before = rng.randrange(len(logs.pulsar.ids) + 1)
    numbers = list(logs.pulsar.ids.values())
    acknowledged = logs.pulsar.acknowledged([*numbers[:before], *(each for each in numbers if rng.random() < 0.5)])
    there = TopicLog(PULSAR, TARGET, mark_of(acknowledged))
    logs.pulsar.read_on(there)
    claims = there.claims(acknowledged, {TARGET: logs.target.end})
    found = {each for each in logs.of_target if logs.target.position_of(each) in claims.get(TARGET, IntervalSet())}
    assert found == {each for each in logs.of_target if logs.pulsar.position_of(each) in acknowledged}
    assert claims[PULSAR] == acknowledged


def test_a_subscription_that_was_sought_back_is_behind() -> None:
    logs = TwoLogs()
    numbers = [logs.publish_in_pulsar() for _ in range(4)]
    logs.carry_all()
    here, there = read(logs, EARLIEST, EARLIEST)
    present = logs.pulsar.acknowledged(numbers[:3])
    found = translated(logs.target.acknowledged(numbers[:1]), {}, here, there, present, logs.pulsar.end)
    assert found.is_behind(present)
    assert (found.first, found.through) == (Position(5, 1), Position(5, 0))


def test_entries_in_several_ledgers() -> None:
    intervals = IntervalSet.from_pairs([(Position(3, 1), Position(7, 0)), (Position(9, 4), Position(9, 8))])
    assert list(existing(intervals, {3: 4, 5: 1, 7: 2, 9: 7})) == [
        Position(3, 2),
        Position(3, 3),
        Position(5, 0),
        Position(7, 0),
        Position(9, 5),
        Position(9, 6),
    ]


def test_an_entry_whose_order_is_unknown_is_withheld() -> None:
    logs = TwoLogs()
    logs.publish_in_pulsar()
    logs.carry_to_target()
    logs.target.append(logs.target.entries[0])
    here = TopicLog(TARGET, PULSAR, EARLIEST)
    logs.target.read_on(here)
    assert here.withheld == [Position(100, 1)]
    assert here.origin_of(Position(100, 0)) == (PULSAR, Position(5, 0))
    assert here.local_of(PULSAR, Position(5, 0)) == Position(100, 0)
